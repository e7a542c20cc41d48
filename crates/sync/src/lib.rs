//! Locks, atomics, time and threads of fusewire behind one facade over std, loom and shuttle.
