//! The reader of channel 3: messages of JSON in netstrings, in a stream that may be damaged.
//!
//! The first byte chooses how the rest, which is the stream, is cut into parts, and how long messages may be. What must hold:
//! nothing panics; what is read does not depend on the cuts; what is held is bounded; damage and messages make up the stream, and
//! damage is told with its place; a message before or behind any damage is found; each message is written so that it is read again.

use kilter_script::mold::{Channel, Frame, LONGEST_MESSAGE, Message};
use serde_json::json;

/// How long messages may be, other than usual.
const SHORT: usize = 60;

/// Feeds the stream in parts whose lengths `cut` gives.
fn read(stream: &[u8], longest: usize, mut cut: impl FnMut() -> usize) -> Vec<Frame<Message>> {
    let mut frames = Vec::new();
    let mut channel = Channel::with_longest(longest);
    let mut rest = stream;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(cut().clamp(1, rest.len()));
        channel.feed(part, &mut |frame| frames.push(frame));
        // The length has as many digits as the longest, and `:` and `,` are around the content.
        assert!(channel.held() <= longest + longest.to_string().len() + 2);
        rest = after;
    }
    channel.end(&mut |frame| frames.push(frame));
    assert_eq!(channel.held(), 0);
    frames
}

fn whole(stream: &[u8], longest: usize) -> Vec<Frame<Message>> {
    read(stream, longest, || usize::MAX)
}

fn messages(frames: &[Frame<Message>]) -> Vec<&Message> {
    frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Message(message) => Some(message),
            Frame::Damage(_) => None,
        })
        .collect()
}

/// Damage lies in the stream, in order, and is not what white space is passed over for.
fn check_damage(stream: &[u8], frames: &[Frame<Message>]) {
    let mut end = 0;
    let mut skipped = 0;
    for frame in frames {
        if let Frame::Damage(damage) = frame {
            let at = usize::try_from(damage.at).expect("it is within the stream");
            assert!(at >= end && damage.bytes > 0 && !stream[at].is_ascii_whitespace());
            assert!(!damage.to_string().contains('\u{1b}'));
            end = at + damage.bytes;
            skipped += damage.bytes;
        }
    }
    assert!(end <= stream.len());
    // The shortest message that there is.
    assert!(skipped + messages(frames).len() * b"8:[\"\",0,0],".len() <= stream.len());
}

/// Holds one input against what must hold.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, stream)) = data.split_first() else { return };
    let longest = if choice & 1 == 0 { LONGEST_MESSAGE } else { SHORT };
    let frames = whole(stream, longest);
    check_damage(stream, &frames);

    let mut state = u32::from(*choice);
    let random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as usize % 23
    };
    assert_eq!(read(stream, longest, random), frames);
    assert_eq!(read(stream, longest, || 1), frames);

    for message in messages(&frames) {
        let _ = message.said();
        assert_eq!(whole(&message.to_netstring(), LONGEST_MESSAGE), [Frame::Message(message.clone())]);
    }
    // No JSON goes on with the beginning of this one.
    let known = Message::new("end", json!(7));
    let behind = whole(&[stream, &known.to_netstring()].concat(), longest);
    assert_eq!(messages(&behind), [messages(&frames), vec![&known]].concat());
    let before = whole(&[&known.to_netstring(), stream].concat(), longest);
    assert_eq!(messages(&before), [vec![&known], messages(&frames)].concat());

    let name = String::from_utf8_lossy(stream);
    let made = Message::part(&name, stream).of_child("child").of_child(&name);
    assert_eq!(whole(&made.to_netstring(), LONGEST_MESSAGE), [Frame::Message(made)]);
}
