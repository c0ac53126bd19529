//! DNS messages: reads requests of clients, writes responses within the size that a client accepts, and compares what
//! resolvers send with what they were asked. Pure.

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, RecordType};
use hickory_proto::serialize::binary::{BinDecodable as _, BinDecoder};

use super::answer::Answer;

/// The maximum size of a request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 4_096;
/// The size of a response by UDP that every client accepts, in bytes.
const UDP_BYTES: u16 = 512;
/// The maximum size of a response by UDP, in bytes: what most networks carry without fragments.
pub(crate) const UDP_BYTES_MAX: u16 = 1_232;
/// The maximum size of a message by TCP, in bytes.
const TCP_BYTES_MAX: usize = 65_535;
/// The version of EDNS that there is.
const EDNS_VERSION: u8 = 0;

/// How a client or a resolver is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

/// A question, and what has to be known to answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The client's id of the request.
    pub(crate) id: u16,
    /// The question.
    pub(crate) query: Query,
    is_recursion_desired: bool,
    is_checking_disabled: bool,
    /// If the client has EDNS: the size of datagrams that it accepts, and whether it wants signatures.
    edns: Option<(u16, bool)>,
}

/// Reads a request. The error is the response, if there is to be one: what is no question at all gets none.
pub(crate) fn read(bytes: &[u8]) -> Result<Request, Option<Vec<u8>>> {
    let header = Header::read(&mut BinDecoder::new(bytes)).map_err(|_| None)?;
    if header.metadata.message_type != MessageType::Query {
        return Err(None);
    }
    let (id, op_code) = (header.metadata.id, header.metadata.op_code);
    let failed = |code| Message::error_msg(id, op_code, code).to_vec().ok();
    if op_code != OpCode::Query {
        return Err(failed(ResponseCode::NotImp));
    }
    if header.counts.queries != 1 || bytes.len() > REQUEST_BYTES_MAX {
        return Err(failed(ResponseCode::FormErr));
    }
    let mut message = Message::from_vec(bytes).map_err(|_| failed(ResponseCode::FormErr))?;
    let Some(query) = message.queries.pop() else { return Err(failed(ResponseCode::FormErr)) };
    let request = Request {
        id,
        query,
        is_recursion_desired: message.metadata.recursion_desired,
        is_checking_disabled: message.metadata.checking_disabled,
        edns: message.edns.as_ref().map(|edns| (edns.max_payload(), edns.flags().dnssec_ok)),
    };
    if message.edns.as_ref().is_some_and(|edns| edns.version() != EDNS_VERSION) {
        return Err(failure(&request, ResponseCode::BADVERS));
    }
    let kind = request.query.query_type();
    // Answers to `ANY` are the largest, and of no use but to attackers; the other two copy whole domains.
    let is_refused = matches!(kind, RecordType::ANY | RecordType::AXFR | RecordType::IXFR)
        || request.query.query_class() != DNSClass::IN;
    if is_refused { Err(failure(&request, ResponseCode::Refused)) } else { Ok(request) }
}

/// The response to a request that is not answered. It is not larger than the request, but for the 11 bytes of EDNS that
/// the request has, too.
pub(crate) fn failure(request: &Request, code: ResponseCode) -> Option<Vec<u8>> {
    let mut message = response(request);
    message.metadata.response_code = code;
    message.to_vec().ok()
}

/// The response with an answer, in at most as many bytes as the client accepts. Additional records are left out first; if
/// answers must be, the response says that it is truncated.
pub(crate) fn respond(request: &Request, answer: Answer, transport: Transport) -> Option<Vec<u8>> {
    let Answer { code, answers, authorities, additionals } = answer;
    let limit = bytes_max(request, transport);
    let fitting = |message: &Message| message.to_vec().ok().filter(|bytes| bytes.len() <= limit);
    let mut message = response(request);
    message.metadata.authoritative = true;
    message.metadata.response_code = code;
    message.answers.clone_from(&answers);
    message.authorities = authorities;
    message.additionals = additionals;
    if let Some(bytes) = fitting(&message) {
        return Some(bytes);
    }
    message.additionals.clear();
    if let Some(bytes) = fitting(&message) {
        return Some(bytes);
    }
    message.metadata.truncation = true;
    let (mut fits, mut too_many, mut best) = (0_usize, answers.len(), None);
    while too_many.saturating_sub(fits) > 1 {
        let middle = fits.midpoint(too_many);
        message.answers = answers.iter().take(middle).cloned().collect();
        match fitting(&message) {
            Some(bytes) => (fits, best) = (middle, Some(bytes)),
            None => too_many = middle,
        }
    }
    best.or_else(|| truncated(request))
}

/// The question as it is sent to a resolver, with an id of its own.
pub(crate) fn question(request: &Request, id: u16) -> Option<Vec<u8>> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = request.is_recursion_desired;
    message.metadata.checking_disabled = request.is_checking_disabled;
    message.queries.push(request.query.clone());
    message.edns =
        request.edns.map(|(bytes, dnssec_ok)| edns(bytes.clamp(UDP_BYTES, UDP_BYTES_MAX), dnssec_ok));
    message.to_vec().ok()
}

/// Whether these bytes are a response to the question with this id: the id and the question are the same, with the same
/// upper and lower case.
pub(crate) fn is_response_to(bytes: &[u8], id: u16, query: &Query) -> bool {
    let mut decoder = BinDecoder::new(bytes);
    let Ok(header) = Header::read(&mut decoder) else { return false };
    if header.metadata.id != id
        || header.metadata.message_type != MessageType::Response
        || header.counts.queries != 1
    {
        return false;
    }
    let asked = Message::read_queries(&mut decoder, 1).ok().and_then(|mut queries| queries.pop());
    asked.is_some_and(|asked| {
        asked.name().eq_case(query.name())
            && asked.query_type() == query.query_type()
            && asked.query_class() == query.query_class()
    })
}

/// A resolver's response, as the client gets it.
pub(crate) fn relayed(request: &Request, mut bytes: Vec<u8>, transport: Transport) -> Option<Vec<u8>> {
    if bytes.len() > bytes_max(request, transport) {
        return truncated(request);
    }
    bytes.get_mut(..2)?.copy_from_slice(&request.id.to_be_bytes());
    Some(bytes)
}

/// A response without records that asks the client to come again by TCP.
fn truncated(request: &Request) -> Option<Vec<u8>> {
    let mut message = response(request);
    message.metadata.truncation = true;
    message.to_vec().ok()
}

fn response(request: &Request) -> Message {
    let mut message = Message::response(request.id, OpCode::Query);
    message.metadata.recursion_desired = request.is_recursion_desired;
    message.metadata.checking_disabled = request.is_checking_disabled;
    message.metadata.recursion_available = true;
    message.queries.push(request.query.clone());
    message.edns = request.edns.map(|(_, dnssec_ok)| edns(UDP_BYTES_MAX, dnssec_ok));
    message
}

fn edns(bytes: u16, dnssec_ok: bool) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(bytes).set_version(EDNS_VERSION).set_dnssec_ok(dnssec_ok);
    edns
}

/// The largest response that the client accepts, in bytes.
fn bytes_max(request: &Request, transport: Transport) -> usize {
    match transport {
        Transport::Udp => {
            let bytes = request.edns.map_or(UDP_BYTES, |(bytes, _)| bytes.clamp(UDP_BYTES, UDP_BYTES_MAX));
            usize::from(bytes)
        }
        Transport::Tcp => TCP_BYTES_MAX,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hickory_proto::rr::{Name, RData, Record};
    use proptest::prelude::*;

    use super::*;

    /// A request with a question, and the size of datagrams of a client with EDNS.
    pub(crate) fn asking(name: &str, kind: RecordType, edns_bytes: Option<u16>) -> Vec<u8> {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.queries.push(Query::query(Name::from_ascii(name).unwrap(), kind));
        message.edns = edns_bytes.map(|bytes| edns(bytes, false));
        message.to_vec().unwrap()
    }

    /// An answer with so many addresses.
    fn answer(addresses: u8) -> Answer {
        let name = Name::from_ascii("web.service.drover.").unwrap();
        let record =
            |last| Record::from_rdata(name.clone(), 0, RData::from(std::net::Ipv4Addr::new(10, 0, 0, last)));
        Answer {
            code: ResponseCode::NoError,
            answers: (0..addresses).map(record).collect(),
            authorities: Vec::new(),
            additionals: Vec::new(),
        }
    }

    fn code_of(reply: Result<Request, Option<Vec<u8>>>) -> Option<ResponseCode> {
        let reply = Message::from_vec(&reply.unwrap_err()?).unwrap();
        assert_eq!((reply.metadata.id, reply.metadata.message_type), (7, MessageType::Response));
        Some(reply.metadata.response_code)
    }

    #[test]
    fn the_question_is_returned_as_it_was_written() {
        let request = read(&asking("wEb.SeRvIcE.DROVER.", RecordType::A, Some(4_096))).unwrap();
        let reply = respond(&request, answer(2), Transport::Udp).unwrap();
        let reply = Message::from_vec(&reply).unwrap();
        assert_eq!((reply.metadata.id, reply.answers.len(), reply.metadata.truncation), (7, 2, false));
        assert!(reply.metadata.recursion_desired && reply.metadata.authoritative);
        assert!(reply.queries[0].name().eq_case(&Name::from_ascii("wEb.SeRvIcE.DROVER.").unwrap()));
        assert_eq!(reply.edns.unwrap().max_payload(), UDP_BYTES_MAX);
    }

    #[test]
    fn what_is_no_single_question_is_refused_or_dropped() {
        let good = asking("web.service.drover.", RecordType::A, None);
        assert!(read(&good).is_ok());
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            code_of(read(&bytes))
        };
        assert_eq!(changed(2, 0x80), None, "a response, which must not be answered");
        assert_eq!(changed(2, 0x28), Some(ResponseCode::NotImp), "an update");
        assert_eq!(changed(5, 0), Some(ResponseCode::FormErr), "no question");
        assert_eq!(changed(5, 2), Some(ResponseCode::FormErr), "two questions");
        assert_eq!(changed(7, 1), Some(ResponseCode::FormErr), "an answer that is not there");
        assert_eq!(code_of(read(&good[..good.len() - 1])), Some(ResponseCode::FormErr));
        assert_eq!(code_of(read(&good[..11])), None);
        assert_eq!(code_of(read(&[])), None);
        // The name is a pointer to itself.
        let looping = [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
        assert_eq!(code_of(read(&looping)), Some(ResponseCode::FormErr));
        for kind in [RecordType::ANY, RecordType::AXFR] {
            let code = code_of(read(&asking("web.service.drover.", kind, None)));
            assert_eq!(code, Some(ResponseCode::Refused));
        }
    }

    #[test]
    fn a_long_answer_is_cut_to_what_the_client_accepts() {
        for (edns_bytes, limit) in [(None, 512), (Some(100), 512), (Some(800), 800), (Some(9_000), 1_232)] {
            let request = read(&asking("web.service.drover.", RecordType::A, edns_bytes)).unwrap();
            let bytes = respond(&request, answer(200), Transport::Udp).unwrap();
            assert!(bytes.len() <= limit, "{} bytes of {limit}", bytes.len());
            let reply = Message::from_vec(&bytes).unwrap();
            assert!(reply.metadata.truncation && !reply.answers.is_empty());
            let bytes = respond(&request, answer(200), Transport::Tcp).unwrap();
            let reply = Message::from_vec(&bytes).unwrap();
            assert_eq!((reply.metadata.truncation, reply.answers.len()), (false, 200));
        }
    }

    #[test]
    fn only_the_response_to_the_question_is_relayed() {
        let request = read(&asking("wWw.example.", RecordType::A, None)).unwrap();
        let asked = question(&request, 99).unwrap();
        assert!(!is_response_to(&asked, 99, &request.query), "it is a question");
        let mut reply = Message::response(99, OpCode::Query);
        reply.queries.push(request.query.clone());
        let bytes = reply.to_vec().unwrap();
        assert!(is_response_to(&bytes, 99, &request.query));
        assert!(!is_response_to(&bytes, 98, &request.query), "another id");
        for other in [("www.example.", RecordType::A), ("wWw.example.", RecordType::AAAA)] {
            let other = read(&asking(other.0, other.1, None)).unwrap();
            assert!(!is_response_to(&bytes, 99, &other.query), "{}", other.query);
        }
        let relayed = Message::from_vec(&relayed(&request, bytes, Transport::Udp).unwrap()).unwrap();
        assert_eq!(relayed.metadata.id, 7);
        let long = super::relayed(&request, vec![0; 513], Transport::Udp).unwrap();
        let long = Message::from_vec(&long).unwrap();
        assert!(long.metadata.truncation && long.metadata.id == 7);
    }

    proptest! {
        /// What is not larger than a question cannot be used to send more to others than was sent.
        #[test]
        fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Err(Some(reply)) = read(&bytes) {
                prop_assert!(reply.len() <= bytes.len().max(12));
            }
        }

        #[test]
        fn no_damage_of_a_question_breaks_the_reader(at in 0_usize..60, value: u8) {
            let mut bytes = asking("blue.web.service.prod.ns.drover.", RecordType::SRV, Some(1_232));
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(request) = read(&bytes) {
                prop_assert!(respond(&request, answer(3), Transport::Udp).is_some());
            }
        }
    }
}
