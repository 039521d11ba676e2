//! A folder for one test.

/// A folder that is removed with the value.
pub struct Folder(std::path::PathBuf);

impl Folder {
    /// A folder in the system's temporary folder. `name` names the test.
    pub fn new(name: &str) -> Folder {
        Folder::within(&std::env::temp_dir(), name)
    }

    /// A folder whose syncs cost nothing, if the system has one.
    pub fn in_memory(name: &str) -> Folder {
        let shared = std::path::Path::new("/dev/shm");
        if shared.is_dir() { Folder::within(shared, name) } else { Folder::new(name) }
    }

    fn within(folder: &std::path::Path, name: &str) -> Folder {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.join(format!("weir-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Its path.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
