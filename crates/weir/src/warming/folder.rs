//! A folder as an origin: a small server on a socket in the state folder, which answers with the files below
//! the folder and nothing else. It ends with its warming.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use weir_files::http_date;
use weir_upstream::{OriginAddress, Upstream, UpstreamSettings};

/// What is read of a file at once, in bytes.
const PIECE_BYTES: u64 = 64 << 10;

/// A running one. Dropped, it ends.
pub(super) struct FolderOrigin {
    upstream: Arc<Upstream>,
    socket: PathBuf,
    _ends: oneshot::Sender<()>,
}

impl FolderOrigin {
    /// Serves a folder on a socket.
    ///
    /// # Errors
    /// The folder or the socket cannot be opened, or there is no thread.
    pub(super) fn start(folder: &Path, socket: &Path) -> io::Result<FolderOrigin> {
        let root = Arc::new(File::open(folder)?);
        // One of a process that was killed.
        let _ = std::fs::remove_file(socket);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(socket)?
        };
        let settings = UpstreamSettings::single("folder", OriginAddress::Unix { path: socket.to_owned() });
        let upstream = Upstream::new(settings).map_err(|error| io::Error::other(error.to_string()))?;
        let (ends, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("weir-folder".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, root) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(FolderOrigin { upstream, socket: socket.to_owned(), _ends: ends })
    }

    /// It as an upstream.
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

impl Drop for FolderOrigin {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn serve(listener: UnixListener, root: Arc<File>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let root = root.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = answer(&root, request.uri().path());
                async move { Ok::<_, Infallible>(answer) }
            });
            // The other end is this program.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The file of a path. The kernel opens it below the folder, and follows no link.
fn answer(root: &File, path: &str) -> Response<Content> {
    let opened = decoded(path).and_then(|name| {
        // A pipe without a writer would hold the thread for ever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(root, &*name, flags, Mode::empty(), resolve).ok()
    });
    let found = opened.map(File::from).and_then(|file| Some((Stamp::of(&file)?, file)));
    let Some((stamp, file)) = found else {
        let mut response = Response::new(Content(None));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let mut response = Response::new(Content(Some(Reading { file, stamp, left: stamp.bytes })));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, stamp.bytes.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(weir_files::media_type(path.as_bytes())));
    for (name, text) in [(LAST_MODIFIED, http_date(stamp.modified())), (ETAG, Some(stamp.tag()))] {
        if let Some(Ok(value)) = text.map(HeaderValue::try_from) {
            headers.insert(name, value);
        }
    }
    response
}

/// A path without its first `/` and without percent coding; `None` where it is none of a file, or leads to
/// what is hidden.
fn decoded(path: &str) -> Option<Vec<u8>> {
    let mut bytes = path.strip_prefix('/')?.bytes();
    let mut name = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let byte = match byte {
            b'%' => u8::try_from(digit()? << 4 | digit()?).ok()?,
            byte => byte,
        };
        name.push(byte);
    }
    let is_hidden = name.split(|byte| *byte == b'/').any(|segment| segment.first() == Some(&b'.'));
    (!name.is_empty() && !is_hidden && !name.contains(&0)).then_some(name)
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of a regular file.
    fn of(file: &File) -> Option<Stamp> {
        let of = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let (modified, changed) = ((of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec()));
        Some(Stamp { bytes: of.len(), inode: of.ino(), modified, changed })
    }

    fn modified(&self) -> std::time::SystemTime {
        let since = std::time::Duration::from_secs(u64::try_from(self.modified.0).unwrap_or_default());
        std::time::SystemTime::UNIX_EPOCH + since
    }

    fn tag(&self) -> String {
        let Stamp { bytes, inode, modified: (s, ns), .. } = self;
        format!("\"{s:x}-{ns:x}-{bytes:x}-{inode:x}\"")
    }
}

/// A file that is being sent.
struct Reading {
    file: File,
    stamp: Stamp,
    left: u64,
}

/// What is answered. It reads on the thread of the server, which has nothing else to do.
struct Content(Option<Reading>);

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(reading) = self.0.as_mut().filter(|reading| reading.left > 0) else {
            return Poll::Ready(None);
        };
        let mut piece = Vec::new();
        let wanted = reading.left.min(PIECE_BYTES);
        let read = (&mut reading.file).take(wanted).read_to_end(&mut piece);
        reading.left -= piece.len() as u64;
        let is_whole = read.is_ok() && piece.len() as u64 == wanted;
        // A file that changes while it is read is not one version: its last piece does not come.
        let is_same = reading.left > 0 || Stamp::of(&reading.file) == Some(reading.stamp);
        Poll::Ready(Some(match is_whole && is_same {
            true => Ok(Frame::data(piece.into())),
            false => Err(io::ErrorKind::InvalidData.into()),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), |reading| SizeHint::with_exact(reading.left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_name_below_the_folder() {
        assert_eq!(decoded("/a%20b/%C3%A4%3F").as_deref(), Some("a b/ä?".as_bytes()));
        for path in
            ["", "/", "x", "/%", "/%2", "/%zz", "/a%00b", "/.env", "/a/.git/config", "/%2eenv", "/a%2F.b"]
        {
            assert_eq!(decoded(path), None, "{path}");
        }
        let folder = tempfolder();
        std::fs::write(folder.join("x"), "hello").unwrap();
        std::fs::write(folder.join(".hidden"), "secret").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let (pipe, mode) = (folder.join("pipe"), Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let root = File::open(&folder).unwrap();
        assert_eq!(answer(&root, "/x").status(), StatusCode::OK);
        for path in
            ["/link", "/../etc/passwd", "/%2e%2e/x", "//etc/passwd", "/none", "/.", "/.hidden", "/pipe"]
        {
            assert_eq!(answer(&root, path).status(), StatusCode::NOT_FOUND, "{path}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn tempfolder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-folder-{:x}", fastrand::u64(..)));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
