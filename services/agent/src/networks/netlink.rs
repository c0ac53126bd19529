//! Requests to the kernel about the interfaces of the calling thread's network namespace (rtnetlink).

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// How long the kernel may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
/// The request to make or to change an interface.
const NEW_LINK: u16 = 16;
/// The answer that carries a number of an error, or 0.
const ERROR: u16 = 2;
const REQUEST_AND_ACK: u16 = 0x1 | 0x4;
const CREATE: u16 = 0x400 | 0x200;
/// The flag of an interface that is up.
const UP: u32 = 1;
/// The number of the loopback interface, which is the first in every namespace.
const LOOPBACK: i32 = 1;
/// Attributes of an interface: its name, and its kind within another attribute.
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
/// The sizes of the headers of a message and of an attribute.
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
const ANSWER_BYTES_MAX: usize = 4_096;

/// Starts the loopback interface.
pub(crate) fn start_loopback() -> io::Result<()> {
    send(&message(REQUEST_AND_ACK, LOOPBACK, UP, &[]))
}

/// Makes a bridge.
pub(crate) fn add_bridge() -> io::Result<()> {
    let attributes = [attribute(NAME, b"probe\0"), attribute(LINK_INFO, &attribute(INFO_KIND, b"bridge"))];
    send(&message(REQUEST_AND_ACK | CREATE, 0, 0, &attributes.concat()))
}

/// A request about an interface.
fn message(flags: u16, interface: i32, state: u32, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0u8; 4];
    body.extend(interface.to_ne_bytes());
    body.extend(state.to_ne_bytes());
    // The bits that change.
    body.extend(state.to_ne_bytes());
    body.extend(attributes);
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // The number of the request, and of its sender, which the kernel fills in.
    message.extend([0u8; 8]);
    message.extend(body);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (ATTRIBUTE_BYTES + value.len()) as u16;
    let mut attribute = length.to_ne_bytes().to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(ATTRIBUTE_BYTES), 0);
    attribute
}

fn send(message: &[u8]) -> io::Result<()> {
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(Protocol::from(NETLINK_ROUTE)))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.write_all(message)?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let length = socket.read(&mut answer)?;
    outcome(&answer[..length])
}

/// The outcome of a request, by the answer of the kernel.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(HEADER_BYTES..HEADER_BYTES + 4);
    let error = error.and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, error) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(error)) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        _ => Err(io::Error::other("the kernel's answer about a network interface is not understood")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_form_that_the_kernel_reads() {
        let bytes = message(REQUEST_AND_ACK, LOOPBACK, UP, &attribute(NAME, b"lo\0"));
        assert_eq!(bytes.len(), 40);
        assert_eq!(bytes[..4], 40u32.to_ne_bytes());
        assert_eq!(bytes[20..24], 1i32.to_ne_bytes());
        assert_eq!(bytes[32..34], 7u16.to_ne_bytes(), "the length of an attribute is without its padding");
    }

    #[test]
    fn answers_are_errors_or_not() {
        let answer = |kind: u16, error: i32| {
            let mut bytes = vec![0u8; 4];
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(HEADER_BYTES, 0);
            bytes.extend(error.to_ne_bytes());
            outcome(&bytes)
        };
        answer(ERROR, 0).unwrap();
        assert_eq!(answer(ERROR, -95).unwrap_err().raw_os_error(), Some(95));
        answer(3, 0).unwrap_err();
        outcome(&[]).unwrap_err();
    }
}
