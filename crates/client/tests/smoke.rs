//! First light: a directory through the client and the in-process server.

use fusewire::Client;
use fusewire_server::{ServerOptions, dir, start};
use std::io::{Read, Seek, SeekFrom, Write};

#[test]
fn list_read_write() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("sub")).unwrap();
    std::fs::write(host.path().join("sub/hello"), b"hello world").unwrap();
    let fs = dir::Directory::new(host.path(), dir::DirOptions::default()).unwrap();
    let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    let names: Vec<_> = client
        .read_dir("/sub")
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["hello"]);
    assert_eq!(client.metadata("sub/hello").unwrap().len(), 11);
    assert_eq!(client.read("/sub/hello").unwrap(), b"hello world");
    let mut file = client.create("/new").unwrap();
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i * 7) as u8).collect();
    file.write_all(&data).unwrap();
    file.seek(SeekFrom::Start(10)).ok();
    file.close().unwrap();
    assert_eq!(std::fs::read(host.path().join("new")).unwrap(), data);
    let mut back = Vec::new();
    client.open("/new").unwrap().read_to_end(&mut back).unwrap();
    assert!(back == data);
    client.rename("/new", "/sub/renamed").unwrap();
    client.remove_dir_all("/sub").unwrap();
    assert!(!client.exists("/sub").unwrap());
    println!("{:?}", client.stats());
    client.shutdown().unwrap();
    let usage = server.join();
    assert_eq!(usage.lookups, 0, "{usage:?}");
    assert_eq!(usage.open_handles, 0);
}
