//! How fusewire reaches a FUSE daemon: vhost-user ring, in process.
