//! FUSE 7.45 on the wire: structures, encoder, parsers, INIT negotiation.
