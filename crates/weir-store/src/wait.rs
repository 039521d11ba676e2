//! What a writer waits for that cannot go on: memory, or its volume. It is woken; it must not poll.

use weir_volume::{FreedWait, Writing};

/// A writer's wait until it may go on. Dropped, it lets the next writer look.
#[derive(Debug)]
pub struct WriterWait {
    memory: Option<FreedWait>,
    /// For room in the volume's queue.
    queue: Option<FreedWait>,
    /// For what is written of the generation: that can leave memory.
    written: Option<Writing>,
}

impl WriterWait {
    pub(crate) fn new(memory: Option<FreedWait>, queue: Option<FreedWait>) -> WriterWait {
        WriterWait { memory, queue, written: None }
    }

    /// As [`Writer::arm`](crate::Writer::arm).
    pub(crate) fn arm(&mut self, written: Option<Writing>) {
        let freed = self.memory.iter_mut().chain(&mut self.queue);
        freed.for_each(FreedWait::arm);
        self.written = written;
    }

    /// Waits until memory was freed, the volume has room again, or it has written more.
    ///
    /// # Cancel safety
    /// Safe, where [`Writer::arm`](crate::Writer::arm) comes before the next wait.
    pub async fn over(&mut self) {
        let WriterWait { memory, queue, written } = self;
        tokio::select! {
            () = woken(memory) => {}
            () = woken(queue) => {}
            () = moved(written.take()) => {}
        }
    }
}

async fn woken(wait: &mut Option<FreedWait>) {
    match wait {
        Some(wait) => wait.woken().await,
        None => std::future::pending().await,
    }
}

async fn moved(written: Option<Writing>) {
    match written {
        Some(writing) => writing.moved().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
