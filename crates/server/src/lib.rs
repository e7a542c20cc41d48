//! Embedded FUSE servers for fusewire: a directory, memory, and a scripted peer for tests.
