//! Frame Streams, the way in which dnstap goes over a connection: each message behind its length, and
//! control frames before, between and after them. The two sides greet each other first:
//!
//! ```text
//! writer: READY    the content types that it could send
//! reader: ACCEPT   those that it takes
//! writer: START    the one that comes; then data frames; then STOP
//! reader: FINISH   it has all of them
//! ```
//!
//! The protocol is described in the header files of the library fstrm, which made it.

/// The content type of dnstap.
pub const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";
/// The longest control frame (fstrm's own limit).
const MAX_CONTROL: usize = 512;
/// The field of a control frame that names a content type.
const CONTENT_TYPE: u32 = 1;

/// What a control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The reader takes what is offered.
    Accept = 1,
    /// Data frames follow.
    Start = 2,
    /// No more data frames follow.
    Stop = 3,
    /// The writer offers.
    Ready = 4,
    /// The reader has got all.
    Finish = 5,
}

/// Why a peer's control frame cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is no control frame, or one too long, or without an end.
    #[error("it does not speak frame streams")]
    Malformed,
    /// It takes other content.
    #[error("it does not take dnstap")]
    OtherContent,
}

/// A control frame; those that offer or begin name the content type.
pub fn control(kind: Control) -> Vec<u8> {
    let mut body = (kind as u32).to_be_bytes().to_vec();
    if matches!(kind, Control::Ready | Control::Accept | Control::Start) {
        body.extend(CONTENT_TYPE.to_be_bytes());
        body.extend(length(DNSTAP).to_be_bytes());
        body.extend(DNSTAP);
    }
    // An empty data frame says that a control frame follows.
    let mut frame = 0_u32.to_be_bytes().to_vec();
    frame.extend(length(&body).to_be_bytes());
    frame.extend(body);
    frame
}

/// Puts a data frame behind what is there.
pub fn put_data(message: &[u8], out: &mut Vec<u8>) {
    out.extend(length(message).to_be_bytes());
    out.extend(message);
}

/// Reads what a control frame says, from the beginning of what came; none if there is more to come.
///
/// # Errors
/// [`FrameError`].
pub fn read_control(octets: &[u8]) -> Result<Option<Control>, FrameError> {
    let Some((escape, rest)) = octets.split_first_chunk::<4>() else { return Ok(None) };
    if *escape != [0; 4] {
        return Err(FrameError::Malformed);
    }
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_CONTROL {
        return Err(FrameError::Malformed);
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let (kind, mut fields) = body.split_first_chunk::<4>().ok_or(FrameError::Malformed)?;
    let kind = match u32::from_be_bytes(*kind) {
        1 => Control::Accept,
        2 => Control::Start,
        3 => Control::Stop,
        4 => Control::Ready,
        5 => Control::Finish,
        _ => return Err(FrameError::Malformed),
    };
    // Who names no content type takes every one.
    let (mut named, mut takes) = (false, false);
    while let Some((head, rest)) = fields.split_first_chunk::<8>() {
        let (field, length) = head.split_at(4);
        let length = length.first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, after) = rest.split_at_checked(length).ok_or(FrameError::Malformed)?;
        if field == CONTENT_TYPE.to_be_bytes() {
            named = true;
            takes |= content == DNSTAP;
        }
        fields = after;
    }
    if !fields.is_empty() {
        return Err(FrameError::Malformed);
    }
    if named && !takes { Err(FrameError::OtherContent) } else { Ok(Some(kind)) }
}

fn length(octets: &[u8]) -> u32 {
    u32::try_from(octets.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_are_read_as_they_are_written() {
        for kind in
            [Control::Accept, Control::Start, Control::Stop, Control::Ready, Control::Finish]
        {
            let frame = control(kind);
            assert_eq!(read_control(&frame), Ok(Some(kind)));
            for end in 0..frame.len() {
                assert_eq!(read_control(&frame[..end]), Ok(None), "{kind:?} cut at {end}");
            }
        }
        let ready = control(Control::Ready);
        assert_eq!(ready[..12], [0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 4]);
    }

    #[test]
    fn what_is_no_greeting_is_told_apart() {
        assert_eq!(read_control(b"HTTP/1.1"), Err(FrameError::Malformed));
        assert_eq!(read_control(&[0, 0, 0, 0, 0, 1, 0, 0]), Err(FrameError::Malformed), "too long");
        assert_eq!(read_control(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 9]), Err(FrameError::Malformed));
        let mut other = control(Control::Accept);
        other[20] = b'P';
        assert_eq!(read_control(&other), Err(FrameError::OtherContent));
        let any = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1];
        assert_eq!(read_control(&any), Ok(Some(Control::Accept)));
    }

    #[test]
    fn data_frames_are_the_length_and_the_message() {
        let mut out = Vec::new();
        put_data(b"abc", &mut out);
        assert_eq!(out, [0, 0, 0, 3, b'a', b'b', b'c']);
    }
}
