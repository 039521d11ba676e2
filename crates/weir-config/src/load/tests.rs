#[test]
fn bad() {
    let e = super::load(std::path::Path::new("tests/files/bad/weir.toml")).unwrap_err();
    println!("{e}");
}
