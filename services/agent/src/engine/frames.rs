//! The output of containers as the engine sends it: frames that say which stream they belong to, and lines that begin with
//! their time. Pure.

use bytes::{Buf as _, Bytes, BytesMut};
use wire::files::LogStream;

/// The bytes before a frame's content: the stream, three zeros and the length.
const HEADER_BYTES: usize = 8;
/// The maximum length of a frame. The engine splits lines after 16 KiB; more comes from something else than an engine.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// The maximum length of a line of a terminal that is waited for.
const LINE_BYTES_MAX: usize = 1 << 20;

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// A part of a container's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    /// The stream.
    pub(crate) stream: LogStream,
    /// The content.
    pub(crate) bytes: Bytes,
}

/// How output arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In frames, each of one stream.
    Frames,
    /// As the lines of a terminal, which has one stream.
    Terminal,
}

/// Takes output apart as it arrives.
#[derive(Debug)]
pub(crate) struct Splitter {
    form: Form,
    buffer: BytesMut,
}

impl Splitter {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, buffer: BytesMut::new() }
    }

    /// Adds what has arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete part; `None` if more has to arrive.
    ///
    /// # Errors
    /// If this is not the output of a container.
    pub(crate) fn next(&mut self) -> Result<Option<Output>, String> {
        match self.form {
            Form::Frames => self.next_frame(),
            Form::Terminal => Ok(self.next_line().map(|bytes| Output { stream: LogStream::Stdout, bytes })),
        }
    }

    /// What is left when the output has ended: the last line of a terminal. A frame that was cut off is dropped.
    pub(crate) fn rest(&mut self) -> Option<Output> {
        let rest = self.buffer.split().freeze();
        let is_line = self.form == Form::Terminal && !rest.is_empty();
        is_line.then_some(Output { stream: LogStream::Stdout, bytes: rest })
    }

    fn next_frame(&mut self) -> Result<Option<Output>, String> {
        loop {
            let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
            let [kind, _, _, _, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            if length > FRAME_BYTES_MAX {
                return Err(format!("a frame of {length} bytes"));
            }
            if self.buffer.len() < HEADER_BYTES + length {
                return Ok(None);
            }
            self.buffer.advance(HEADER_BYTES);
            let bytes = self.buffer.split_to(length).freeze();
            let stream = match kind {
                // The input, as it may be repeated.
                0 => continue,
                1 => LogStream::Stdout,
                2 => LogStream::Stderr,
                // What the engine itself has to say.
                3 => return Err(String::from_utf8_lossy(&bytes).into_owned()),
                other => return Err(format!("a frame of the unknown stream {other}")),
            };
            return Ok(Some(Output { stream, bytes }));
        }
    }

    fn next_line(&mut self) -> Option<Bytes> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n');
        let length =
            end.map(|end| end + 1).or((self.buffer.len() >= LINE_BYTES_MAX).then_some(LINE_BYTES_MAX))?;
        Some(self.buffer.split_to(length).freeze())
    }
}

/// Takes the time off the beginning of an entry: nanoseconds since 1970, and the content. `None` if it does not begin with
/// a time.
pub(crate) fn split_time(entry: &Bytes) -> Option<(i64, Bytes)> {
    let space = entry.iter().position(|byte| *byte == b' ')?;
    let time = parse_time(std::str::from_utf8(&entry[..space]).ok()?)?;
    Some((time, entry.slice(space + 1..)))
}

/// Parses a time of RFC 3339 to nanoseconds since 1970.
fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let days = days_since_1970(date.next()??, date.next()??, date.next()??)?;
    let (time, offset_secs) = split_offset(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let secs = clock.next()?? * 3_600 + clock.next()?? * 60 + clock.next()??;
    let nanos = format!("{fraction:0<9}").get(..9)?.parse::<i64>().ok()?;
    let secs = days.checked_mul(86_400)?.checked_add(secs - offset_secs)?;
    secs.checked_mul(NANOS_PER_SEC)?.checked_add(nanos)
}

/// Splits a time of day from the offset of its zone, in seconds.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let at = time.rfind(['+', '-'])?;
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let secs = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
    Some((&time[..at], if time[at..].starts_with('-') { -secs } else { secs }))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9_999).contains(&year) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// A time as the engine takes it in `since`.
pub(crate) fn since(nanos: i64) -> String {
    format!("{}.{:09}", nanos.div_euclid(NANOS_PER_SEC), nanos.rem_euclid(NANOS_PER_SEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[kind, 0, 0, 0][..], &length[..], text.as_bytes()].concat()
    }

    #[test]
    fn frames_are_complete_wherever_the_stream_is_cut() {
        let all = [frame(1, "one\n"), frame(0, "in"), frame(2, ""), frame(2, "two")].concat();
        for cut in 0..=all.len() {
            let mut splitter = Splitter::new(Form::Frames);
            let mut found = Vec::new();
            for part in [&all[..cut], &all[cut..]] {
                splitter.push(part);
                while let Some(output) = splitter.next().unwrap() {
                    found.push((output.stream, String::from_utf8(output.bytes.to_vec()).unwrap()));
                }
            }
            let expected =
                [(LogStream::Stdout, "one\n"), (LogStream::Stderr, ""), (LogStream::Stderr, "two")];
            assert_eq!(found, expected.map(|(stream, text)| (stream, text.to_owned())), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_output_is_an_error() {
        for bytes in [frame(7, "x"), frame(3, "journal is broken"), vec![1, 0, 0, 0, 255, 0, 0, 0]] {
            let mut splitter = Splitter::new(Form::Frames);
            splitter.push(&bytes);
            splitter.next().unwrap_err();
        }
    }

    #[test]
    fn a_terminal_has_lines_and_perhaps_a_last_part() {
        let mut splitter = Splitter::new(Form::Terminal);
        splitter.push(b"a\r\nb");
        assert_eq!(&splitter.next().unwrap().unwrap().bytes[..], b"a\r\n");
        assert_eq!(splitter.next().unwrap(), None);
        assert_eq!(&splitter.rest().unwrap().bytes[..], b"b");
        assert_eq!(splitter.rest(), None);
    }

    #[test]
    fn times_are_read_in_every_form_that_engines_write() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
            ("2026-11-25T23:58:40.000000123Z", 1_795_651_120_000_000_123),
            ("2026-11-26T00:58:40.000000123+01:00", 1_795_651_120_000_000_123),
            ("2024-02-29T12:00:00-00:30", 1_709_209_800_000_000_000),
        ] {
            assert_eq!(parse_time(text), Some(nanos), "{text}");
        }
        for text in
            ["", "T", "2026-13-01T00:00:00Z", "2026-01-01", "1970-01-01T00:00:00", "1970-01-01T0:x:0Z"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(since(1_500_000_001), "1.500000001");
    }

    #[test]
    fn entries_without_a_time_are_told_apart() {
        let entry = Bytes::from_static(b"1970-01-01T00:00:01Z hello world\n");
        assert_eq!(split_time(&entry), Some((1_000_000_000, Bytes::from_static(b"hello world\n"))));
        assert_eq!(split_time(&Bytes::from_static(b"hello world\n")), None);
    }
}
