//! Users of the applier who know what they must be told, and a witness who hears every answer that anybody gives them, the
//! ones that come late and that they do not hear themselves included.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::feed::{Log, LogError, LogPage};
use bus::{Bus, CommandError, Request, Requests};
use model::job::{JobSpec, Task, TaskGroup};
use model::{Epoch, Index, JobKey, RequestId};
use state::{Replica, Scope, State};
use store::Database;
use tests::harness::{Cluster, pause};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::command::{Answer, Command, DeregisterJob, Done, EvaluateJob, RegisterJob};
use wire::feed::{AskHead, Head};
use wire::{Inbox, Refusal, Role, Subject};

/// How many ask at the same time.
const ASKERS: usize = 8;
/// How long somebody asks for the same.
const WITHIN: Duration = Duration::from_secs(30);
/// How long one question for the head is waited for.
const HEAD_WITHIN: Duration = Duration::from_millis(500);

/// Whoever asks, and whoever listens.
pub(crate) struct Witness {
    book: Arc<Book>,
    asking: JoinSet<()>,
    hearing: JoinHandle<Heard>,
    /// Ends the listening, and the following of the feed.
    end: DropGuard,
}

/// What was said on the wire.
#[derive(Default)]
struct Heard {
    /// Who asked, by where the answer goes.
    asked: HashMap<String, RequestId>,
    answers: Vec<Request>,
}

/// What was asked, and what is known to be acknowledged.
#[derive(Default)]
struct Book {
    /// The highest index that anybody was told of.
    acknowledged: AtomicU64,
    /// The highest epoch of an applier that anybody was told of.
    epoch: AtomicU64,
    answers: AtomicUsize,
    only_reads: AtomicBool,
    is_over: AtomicBool,
    questions: Mutex<HashMap<RequestId, Question>>,
    /// The requests that were acknowledged, by index.
    written: Mutex<BTreeMap<Index, RequestId>>,
}

/// Something that was asked.
#[derive(Debug, Clone, Copy)]
struct Question {
    /// What had been acknowledged before: no answer may come from an older state.
    floor: Index,
    /// Of the applier that was known before: no older one may answer.
    epoch: Epoch,
    right: Right,
}

/// What the answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Head,
    Done,
    Refused,
}

impl Witness {
    /// Begins to listen and to ask.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let listener = cluster.bus().await;
        let serve = async |subject: String| listener.serve(subject).await.expect("it can be listened to");
        let questions =
            [serve(Subject::EVERY_COMMAND.to_owned()).await, serve(Subject::AskHead.to_string()).await];
        let answers = serve(Inbox::EVERY.to_owned()).await;
        let end = CancellationToken::new();
        let hearing = tokio::spawn(listen(questions, answers, end.clone()));
        let book = Arc::<Book>::default();
        let mut asking = JoinSet::new();
        // Commands are those of an API process.
        let bus = cluster.bus_as(Role::Api).await;
        let (replica, log) = (Arc::new(Replica::new(State::default())), Loads(cluster.database().await));
        // Whoever hears of a new applier asks it at once.
        tokio::spawn(bus::feed::follow(
            bus.clone(),
            replica,
            log,
            bus.contact(),
            Duration::ZERO,
            end.clone(),
        ));
        for number in 0..ASKERS {
            let asker = Asker { bus: bus.clone(), book: Arc::clone(&book), number };
            asking.spawn(asker.ask());
        }
        Self { book, asking, hearing, end: end.drop_guard() }
    }

    /// From now on nobody asks for changes: an applier that is deposed meanwhile does not learn it from its commits.
    pub(crate) fn only_read(&self) {
        self.book.only_reads.store(true, Ordering::Relaxed);
    }

    /// How many answers have been given that askers waited for.
    pub(crate) fn answers(&self) -> usize {
        self.book.answers.load(Ordering::Relaxed)
    }

    /// Asserts that nobody was ever told anything but what was so, and that what anybody was told is in the log.
    ///
    /// # Panics
    /// If that is not so.
    pub(crate) async fn assert_truthful(mut self, cluster: &Cluster) {
        self.book.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.asking.join_next().await {
            ended.expect("askers are told what they must be");
        }
        drop(self.end);
        let heard = self.hearing.await.expect("whoever listens does not panic");
        let log = log(cluster);
        for (index, id) in &*lock(&self.book.written) {
            assert_eq!(log.get(index), Some(id), "what was acknowledged at index {index} is not there");
        }
        let questions = lock(&self.book.questions);
        let mut done = HashMap::<RequestId, Done>::new();
        let mut seen = 0;
        for answer in &heard.answers {
            let Some(id) = heard.asked.get(answer.subject()) else { continue };
            // Others ask as well, who know less.
            let Some(Question { floor, epoch, right }) = questions.get(id).copied() else { continue };
            let told = Told::read(answer);
            seen += 1;
            match (right, told) {
                (_, Told::Nothing) => {}
                (Right::Head, Told::Head(head)) => {
                    let is_new = head.index >= floor && head.epoch >= epoch;
                    assert!(is_new, "told of {head:?} after {floor} was acknowledged, and epoch {epoch}");
                }
                (Right::Done, Told::Done(told)) => {
                    assert_eq!(log.get(&told.index), Some(id), "told of what is not in the log: {told:?}");
                    let before = done.entry(*id).or_insert_with(|| told.clone());
                    assert_eq!(*before, told, "told different things of one request");
                }
                (Right::Refused, Told::Refused(_)) => {}
                (right, told) => panic!("told {told:?}, which should be {right:?}; acknowledged was {floor}"),
            }
        }
        let given = self.book.answers.load(Ordering::Relaxed);
        assert!(seen >= given, "the witness has heard {seen} of {given} answers");
    }
}

/// Takes in what is said until the end, and what is still under way then.
async fn listen(questions: [Requests; 2], mut answers: Requests, end: CancellationToken) -> Heard {
    /// After which nothing more is under way.
    const SILENCE: Duration = Duration::from_millis(100);
    let [mut commands, mut heads] = questions;
    let mut heard = Heard::default();
    loop {
        let question = tokio::select! {
            Some(question) = commands.next() => question,
            Some(question) = heads.next() => question,
            Some(answer) = answers.next() => {
                heard.answers.push(answer);
                continue;
            }
            () = tokio::time::sleep(SILENCE), if end.is_cancelled() => return heard,
            () = end.cancelled(), if !end.is_cancelled() => continue,
        };
        heard.asked.insert(question.reply_subject().to_owned(), question.id());
    }
}

/// A log for those who only want to hear of appliers.
struct Loads(Database);

impl Log for Loads {
    async fn load(&self) -> Result<State, LogError> {
        Ok(self.0.load(Scope::ALL).await?.state)
    }

    async fn after(&self, _: Index) -> Result<LogPage, LogError> {
        Ok(LogPage::Trimmed)
    }
}

/// What somebody was told.
#[derive(Debug)]
enum Told {
    Head(Head),
    Done(Done),
    Refused(#[allow(dead_code, reason = "shown where it is wrong")] Refusal),
    /// To ask again, or that nobody is there.
    Nothing,
}

impl Told {
    fn read(answer: &Request) -> Self {
        let body = "an answer of its kind can be read";
        if answer.is::<Head>() {
            return Self::Head(answer.body().expect(body));
        }
        if answer.is::<Refusal>() {
            return Self::Refused(answer.body().expect(body));
        }
        match answer.is::<Answer>().then(|| answer.body().expect(body)) {
            Some(Answer::Done(done)) => Self::Done(done),
            Some(Answer::Retry { .. }) | None => Self::Nothing,
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
    rows.iter().map(|text| row(text).expect("an index and an id")).collect()
}

/// Somebody with jobs of his own, one after the other.
struct Asker {
    bus: Bus,
    book: Arc<Book>,
    number: usize,
}

impl Asker {
    /// Asks until it is over.
    async fn ask(self) {
        for round in 0.. {
            if self.book.only_reads.load(Ordering::Relaxed) {
                self.head().await;
                self.command(evaluate("nobody's"), Right::Refused).await;
            } else {
                self.use_a_job(&format!("job-{}-{round}", self.number)).await;
            }
            if self.book.is_over.load(Ordering::Relaxed) {
                return;
            }
            // Enough is asked at any time, and not more than can be looked through.
            pause().await;
        }
    }

    /// Has a job registered and looked at, asks for the head, for what cannot be, and has the job
    /// purged; then it cannot be looked at any more.
    async fn use_a_job(&self, id: &str) {
        self.command(register(id), Right::Done).await;
        self.head().await;
        self.command(evaluate(id), Right::Done).await;
        self.command(evaluate("nobody's"), Right::Refused).await;
        self.command(purge(id), Right::Done).await;
        self.command(evaluate(id), Right::Refused).await;
    }

    fn note(&self, right: Right) -> RequestId {
        let id = self.bus.new_request_id();
        let floor = Index(self.book.acknowledged.load(Ordering::SeqCst));
        let epoch = Epoch(self.book.epoch.load(Ordering::SeqCst));
        lock(&self.book.questions).insert(id, Question { floor, epoch, right });
        id
    }

    async fn command(&self, command: Command, right: Right) {
        let id = self.note(right);
        match self.bus.command_as(id, &command, WITHIN).await {
            Ok(done) if right == Right::Done => {
                lock(&self.book.written).insert(done.index, id);
                self.book.acknowledged.fetch_max(done.index.0, Ordering::SeqCst);
            }
            Err(CommandError::Refused(_)) if right == Right::Refused => {}
            told => panic!("told {told:?}, which should be {right:?}: {command:?}"),
        }
        self.book.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Default reads ask for the head like this.
    async fn head(&self) {
        loop {
            let id = self.note(Right::Head);
            let head = self.bus.request_as::<_, Head>(Subject::AskHead, id, &AskHead {}, HEAD_WITHIN).await;
            if let Ok(head) = head {
                self.book.acknowledged.fetch_max(head.index.0, Ordering::SeqCst);
                self.book.epoch.fetch_max(head.epoch.0, Ordering::SeqCst);
                self.book.answers.fetch_add(1, Ordering::Relaxed);
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
