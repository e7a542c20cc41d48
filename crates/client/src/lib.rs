//! FUSE without the mount: a std::fs-shaped client for FUSE daemons and virtio-fs devices.

mod engine;
