//! Clients of the applier that know which answers are correct, and a witness that captures every answer to them on the
//! wire, including late ones that the clients do not receive.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::feed::{Log, LogError, LogPage};
use bus::{Bus, Request, Requests};
use model::job::{JobSpec, Task, TaskGroup};
use model::{Epoch, Index, JobKey, RequestId};
use state::{Replica, Scope, State};
use store::{Database, Loaded};
use tests::harness::{Cluster, pause};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{Answer, Command, CommandError, DeregisterJob, Done, EvaluateJob, RegisterJob};
use wire::feed::{GetHead, Head};
use wire::{Inbox, Refusal, Role, Subject};

/// Number of clients.
const CLIENTS: usize = 8;
/// How long a client repeats one command.
const WITHIN: Duration = Duration::from_secs(30);
/// How long a client waits for one answer with the head.
const HEAD_WITHIN: Duration = Duration::from_millis(500);

/// The clients, and the task that captures messages.
pub(crate) struct Witness {
    records: Arc<Records>,
    clients: JoinSet<()>,
    capture: JoinHandle<Captured>,
    /// Stops capturing, and following the feed.
    end: DropGuard,
}

/// Messages that were captured.
#[derive(Default)]
struct Captured {
    /// Ids of requests by their reply subjects.
    requests: HashMap<String, RequestId>,
    answers: Vec<Request>,
}

/// The requests that were sent, and the known acknowledgements.
#[derive(Default)]
struct Records {
    /// The highest index in any answer.
    acknowledged: AtomicU64,
    /// The highest epoch of an applier in any answer.
    epoch: AtomicU64,
    answers: AtomicUsize,
    only_reads: AtomicBool,
    is_over: AtomicBool,
    expectations: Mutex<HashMap<RequestId, Expectation>>,
    /// The acknowledged requests, by index.
    written: Mutex<BTreeMap<Index, RequestId>>,
}

/// The constraints on the answer to a request.
#[derive(Debug, Clone, Copy)]
struct Expectation {
    /// The highest acknowledged index when the request was sent. No answer may come from an older state.
    floor: Index,
    /// The epoch that was known when the request was sent. No older applier may answer.
    epoch: Epoch,
    expected: ExpectedAnswer,
}

/// The correct answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedAnswer {
    Head,
    Done,
    Refused,
}

impl Witness {
    /// Starts the clients and the capture.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let observer = cluster.bus().await;
        let serve =
            async |subject: String| observer.serve(subject).await.expect("the subject can be subscribed to");
        let requests =
            [serve(Subject::EVERY_COMMAND.to_owned()).await, serve(Subject::GetHead.to_string()).await];
        let answers = serve(Inbox::EVERY.to_owned()).await;
        let end = CancellationToken::new();
        let capture = tokio::spawn(capture_messages(requests, answers, end.clone()));
        let records = Arc::<Records>::default();
        let mut clients = JoinSet::new();
        // Commands are those of an API process.
        let bus = cluster.bus_as(Role::Api).await;
        let (replica, log) =
            (Arc::new(Replica::new(State::default())), HeadOnlyLog(cluster.database().await));
        // A client that learns of a new applier sends its requests there at once.
        tokio::spawn(bus::feed::follow(
            bus.clone(),
            replica,
            log,
            bus.contact(),
            Duration::ZERO,
            end.clone(),
        ));
        for number in 0..CLIENTS {
            let client = Client { bus: bus.clone(), records: Arc::clone(&records), number };
            clients.spawn(client.run());
        }
        Self { records, clients, capture, end: end.drop_guard() }
    }

    /// From now on clients send no changes, so that an applier that is deposed meanwhile does not notice it by a
    /// commit.
    pub(crate) fn only_read(&self) {
        self.records.only_reads.store(true, Ordering::Relaxed);
    }

    /// Number of answers that clients have received.
    pub(crate) fn answers(&self) -> usize {
        self.records.answers.load(Ordering::Relaxed)
    }

    /// Asserts that every answer was correct, and that everything that was acknowledged is in the log.
    ///
    /// # Panics
    /// If an answer was not correct.
    pub(crate) async fn assert_truthful(mut self, cluster: &Cluster) {
        self.records.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("clients get correct answers");
        }
        drop(self.end);
        let captured = self.capture.await.expect("the capture does not panic");
        let log = log(cluster);
        for (index, id) in &*lock(&self.records.written) {
            assert_eq!(
                log.get(index),
                Some(id),
                "the request that was acknowledged at index {index} is not in the log"
            );
        }
        let expectations = lock(&self.records.expectations);
        let mut done = HashMap::<RequestId, Done>::new();
        let mut seen = 0;
        for answer in &captured.answers {
            let Some(id) = captured.requests.get(answer.subject()) else { continue };
            // Requests of other processes have no expectations.
            let Some(Expectation { floor, epoch, expected }) = expectations.get(id).copied() else {
                continue;
            };
            let outcome = Outcome::read(answer);
            seen += 1;
            match (expected, outcome) {
                (_, Outcome::Inconclusive) => {}
                (ExpectedAnswer::Head, Outcome::Head(head)) => {
                    let is_new = head.index >= floor && head.epoch >= epoch;
                    assert!(is_new, "answered {head:?} after {floor} was acknowledged, and epoch {epoch}");
                }
                (ExpectedAnswer::Done, Outcome::Done(answer)) => {
                    assert_eq!(log.get(&answer.index), Some(id), "the answer is not in the log: {answer:?}");
                    let before = done.entry(*id).or_insert_with(|| answer.clone());
                    assert_eq!(*before, answer, "one request got different answers");
                }
                (ExpectedAnswer::Refused, Outcome::Refused(_)) => {}
                (expected, outcome) => {
                    panic!("got {outcome:?} instead of {expected:?}; acknowledged was {floor}")
                }
            }
        }
        let received = self.records.answers.load(Ordering::Relaxed);
        assert!(seen >= received, "the witness captured {seen} of {received} answers");
    }
}

/// Captures messages until the end, including those that are still in flight then.
async fn capture_messages(
    requests: [Requests; 2],
    mut answers: Requests,
    end: CancellationToken,
) -> Captured {
    /// After this much silence nothing is in flight any more.
    const SILENCE: Duration = Duration::from_millis(100);
    let [mut commands, mut heads] = requests;
    let mut captured = Captured::default();
    loop {
        let request = tokio::select! {
            Some(request) = commands.next() => request,
            Some(request) = heads.next() => request,
            Some(answer) = answers.next() => {
                captured.answers.push(answer);
                continue;
            }
            () = tokio::time::sleep(SILENCE), if end.is_cancelled() => return captured,
            () = end.cancelled(), if !end.is_cancelled() => continue,
        };
        captured.requests.insert(request.reply_subject().to_owned(), request.id());
    }
}

/// A log for clients that only need to learn of appliers.
struct HeadOnlyLog(Database);

impl Log for HeadOnlyLog {
    async fn load(&self) -> Result<(State, Head), LogError> {
        let Loaded { state, head, .. } = self.0.load(Scope::ALL).await?;
        Ok((state, head))
    }

    async fn after(&self, _: Index) -> Result<LogPage, LogError> {
        Ok(LogPage::Trimmed)
    }

    async fn head(&self) -> Result<Head, LogError> {
        Ok(self.0.head().await?)
    }

    fn address(&self) -> String {
        self.0.address()
    }
}

/// The outcome in an answer.
#[derive(Debug)]
enum Outcome {
    Head(Head),
    Done(Done),
    Refused(#[allow(dead_code, reason = "the field is printed if it is not expected")] Refusal),
    /// The client is to retry, or there is no responder.
    Inconclusive,
}

impl Outcome {
    fn read(answer: &Request) -> Self {
        let body = "an answer can be decoded by its kind";
        if answer.is::<Head>() {
            return Self::Head(answer.body().expect(body));
        }
        if answer.is::<Refusal>() {
            return Self::Refused(answer.body().expect(body));
        }
        match answer.is::<Answer>().then(|| answer.body().expect(body)) {
            Some(Answer::Done(done)) => Self::Done(done),
            Some(Answer::Retry { .. }) | None => Self::Inconclusive,
        }
    }
}

/// The requests of the log, by index.
fn log(cluster: &Cluster) -> BTreeMap<Index, RequestId> {
    let row = |row: &String| {
        let (index, id) = row.split_once('|')?;
        Some((Index(index.parse().ok()?), id.parse().ok()?))
    };
    let rows = cluster.sql("select index, request_id from changes");
    rows.iter().map(|text| row(text).expect("the row has an index and an id")).collect()
}

/// A client that uses jobs of its own, one after another.
struct Client {
    bus: Bus,
    records: Arc<Records>,
    number: usize,
}

impl Client {
    /// Sends requests until the end.
    async fn run(self) {
        for round in 0.. {
            if self.records.only_reads.load(Ordering::Relaxed) {
                self.head().await;
                self.command(evaluate("unknown"), ExpectedAnswer::Refused).await;
            } else {
                self.use_job(&format!("job-{}-{round}", self.number)).await;
            }
            if self.records.is_over.load(Ordering::Relaxed) {
                return;
            }
            // The pause bounds the number of requests.
            pause().await;
        }
    }

    /// Registers a job, evaluates it, reads the head, sends a command that must be refused, and purges the job. Then
    /// the job cannot be evaluated any more.
    async fn use_job(&self, id: &str) {
        self.command(register(id), ExpectedAnswer::Done).await;
        self.head().await;
        self.command(evaluate(id), ExpectedAnswer::Done).await;
        self.command(evaluate("unknown"), ExpectedAnswer::Refused).await;
        self.command(purge(id), ExpectedAnswer::Done).await;
        self.command(evaluate(id), ExpectedAnswer::Refused).await;
    }

    fn expect_answer(&self, expected: ExpectedAnswer) -> RequestId {
        let id = self.bus.new_request_id();
        let floor = Index(self.records.acknowledged.load(Ordering::SeqCst));
        let epoch = Epoch(self.records.epoch.load(Ordering::SeqCst));
        lock(&self.records.expectations).insert(id, Expectation { floor, epoch, expected });
        id
    }

    async fn command(&self, command: Command, expected: ExpectedAnswer) {
        let id = self.expect_answer(expected);
        match self.bus.command_as(id, &command, WITHIN).await {
            Ok(done) if expected == ExpectedAnswer::Done => {
                lock(&self.records.written).insert(done.index, id);
                self.records.acknowledged.fetch_max(done.index.0, Ordering::SeqCst);
            }
            Err(CommandError::Refused(_)) if expected == ExpectedAnswer::Refused => {}
            outcome => panic!("got {outcome:?} instead of {expected:?}: {command:?}"),
        }
        self.records.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the head as default reads do.
    async fn head(&self) {
        loop {
            let id = self.expect_answer(ExpectedAnswer::Head);
            let head = self.bus.request_as::<_, Head>(Subject::GetHead, id, &GetHead {}, HEAD_WITHIN).await;
            if let Ok(head) = head {
                self.records.acknowledged.fetch_max(head.index.0, Ordering::SeqCst);
                self.records.epoch.fetch_max(head.epoch.0, Ordering::SeqCst);
                self.records.answers.fetch_add(1, Ordering::Relaxed);
                return;
            }
            pause().await;
        }
    }
}

fn register(id: &str) -> Command {
    let task = Task { name: "task".into(), driver: "raw_exec".into(), ..Task::default() };
    let group = TaskGroup { name: "group".into(), count: 1, tasks: vec![task], ..TaskGroup::default() };
    let spec = JobSpec {
        namespace: "default".into(),
        id: id.into(),
        name: id.into(),
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        priority: 50,
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    Command::RegisterJob(Box::new(RegisterJob {
        spec: Arc::new(spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
    }))
}

fn evaluate(id: &str) -> Command {
    Command::EvaluateJob(EvaluateJob { job: JobKey::new("default", id), force_reschedule: false })
}

fn purge(id: &str) -> Command {
    let job = JobKey::new("default", id);
    Command::DeregisterJob(DeregisterJob { job, purge: true, eval_priority: None, no_shutdown_delay: false })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
