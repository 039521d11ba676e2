//! How a volume ends: closed, or handed over to another process.

use std::collections::HashSet;
use std::io;

use super::Volume;
use crate::index::segment::{FOLDER, number_of};
use crate::write::intake::Command;

impl Volume {
    /// Writes what waits, makes it durable, and ends the threads. Nothing is stored afterwards.
    pub fn close(&self) {
        self.stop_writing();
        let readers = self.readers.lock().take();
        if let Some(readers) = readers {
            readers.stop();
            self.settle_budget();
            self.shared.disk.release();
        }
    }

    /// As [`Volume::close`], for another process that opens the folder next. Nothing is found here any more.
    /// What a caller has the record of is still read, until the volume is dropped: each byte is checked, and
    /// a segment that the other process drops is a gap.
    pub fn hand_over(&self) {
        self.stop_writing();
        if let Some(readers) = &mut *self.readers.lock() {
            readers.let_go();
            self.settle_budget();
            self.shared.disk.release();
            self.shared.index.forget();
        }
    }

    /// Lets go of segments whose files the other process has unlinked since [`Volume::hand_over`]. Their room
    /// on the drive is free once no read of them is under way. Blocks.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn let_dropped_go(&self) -> io::Result<()> {
        let files = self.shared.disk.list(FOLDER)?;
        let there: HashSet<u64> = files.iter().filter_map(|name| number_of(name)).collect();
        for number in self.segments().into_iter().filter(|number| !there.contains(number)) {
            self.shared.segments.remove(number);
        }
        Ok(())
    }

    fn stop_writing(&self) {
        if let Some(writer) = self.writer.lock().take() {
            let _ = self.intake.send(Command::Stop);
            // A panic of the writer has ejected the volume.
            let _ = writer.join();
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.close();
    }
}
