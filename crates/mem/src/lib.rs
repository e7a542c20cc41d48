//! Sealed shared-memory regions and the frame allocator of fusewire.
