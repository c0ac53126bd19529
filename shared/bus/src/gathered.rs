//! Small messages that come thick and fast and are in no hurry, over a connection of their own that is looked at now and
//! then.
//!
//! A connection wakes its task for whatever arrives, which costs far more than reading a message. This one has a runtime
//! that stands still between two looks, while NATS and the kernel keep what comes: one read then brings it all.

use std::thread;
use std::time::Duration;

use async_nats::Subscriber;
use futures::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{unconstrained, yield_now};

use crate::connection::{Bus, Error, Reconnections};
use crate::serve::{Queue, Requests};

/// How many steps the connection is driven at each look. The first finds that there is something, the second reads it, and
/// the third is for what that led to.
const STEPS: u32 = 3;

impl Bus {
    /// Serves a subject, as [`Bus::serve`] does, but looks only every so often at what has come; [`Requests::next_many`]
    /// then has it all. Tells also of each time that something may have been missed, because the connection that is used
    /// for this alone was lost and made again.
    ///
    /// # Errors
    /// If it is no subject.
    pub async fn serve_gathered(
        &self,
        subject: impl Into<String>,
        every: Duration,
    ) -> Result<(Requests, Reconnections), Error> {
        let subject = subject.into();
        let (queue, requests) = Queue::new(self.clone(), &subject);
        let (ready, is_ready) = oneshot::channel();
        let bus = self.clone();
        let gather = move || match Listener::begin(&bus, &subject, &queue) {
            // Neither can be told to somebody who does not wait any more; then the queue is closed, too.
            Err(error) => drop(ready.send(Err(error))),
            Ok(listener) => {
                drop(ready.send(Ok(listener.bus.reconnections())));
                listener.run(&queue, every);
            }
        };
        thread::Builder::new().name("bus-gathered".to_owned()).spawn(gather).map_err(Error::Thread)?;
        let reconnections = is_ready.await.map_err(|_| Error::Disconnected)??;
        Ok((requests, reconnections))
    }
}

/// A subscription with a connection and a thread of its own.
struct Listener {
    runtime: Runtime,
    bus: Bus,
    subscriber: Subscriber,
}

impl Listener {
    fn begin(beside: &Bus, subject: &str, queue: &Queue) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
        let listening = async {
            let bus = beside.open_another().await?;
            let subscriber = bus.subscribe(subject).await?;
            Ok((bus, subscriber))
        };
        let begun = async {
            tokio::select! {
                begun = listening => begun,
                () = queue.closed() => Err(Error::Disconnected),
            }
        };
        let (bus, subscriber) = runtime.block_on(begun)?;
        Ok(Self { runtime, bus, subscriber })
    }

    /// Looks at the connection every so often, until nobody is interested or it was closed for good.
    fn run(mut self, queue: &Queue, every: Duration) {
        while !queue.is_closed() {
            // Without a budget, which is for tasks that share a thread.
            let goes_on = self.runtime.block_on(unconstrained(drive(&mut self.subscriber, queue)));
            if !goes_on {
                return;
            }
            thread::sleep(every);
        }
    }
}

/// Lets the connection do what it has to, and takes what came. Whether more may come.
async fn drive(subscriber: &mut Subscriber, queue: &Queue) -> bool {
    for _ in 0..STEPS {
        yield_now().await;
        while let Some(next) = subscriber.next().now_or_never() {
            let Some(message) = next else { return false };
            queue.put(message);
        }
    }
    true
}
