//! Fuzzes the reader of channel 3: JSON messages in netstrings, in a stream that may be damaged.
//!
//! The first byte determines the splits of the stream and the maximum length of messages. The rest is the stream.
//! Properties:
//!
//! - It does not panic.
//! - The result does not depend on the splits.
//! - The buffered data is bounded.
//! - Damage and messages make up the stream, and damage is reported with its position.
//! - A message before or after damage is found.
//! - A written message can be read again.

use kilter_script::mold::{Channel, Frame, LONGEST_MESSAGE, Message};
use serde_json::json;

/// Reduced maximum length of messages in bytes.
const SHORT: usize = 60;

/// Feeds the stream in parts. `cut` returns their lengths.
fn read(stream: &[u8], longest: usize, mut cut: impl FnMut() -> usize) -> Vec<Frame<Message>> {
    let mut frames = Vec::new();
    let mut channel = Channel::with_longest(longest);
    let mut rest = stream;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(cut().clamp(1, rest.len()));
        channel.feed(part, &mut |frame| frames.push(frame));
        // The length prefix has at most as many digits as the maximum. `:` and `,` surround the content.
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

/// Checks that damage lies in the stream, in order, and does not start with white space, which is skipped.
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
    // The shortest possible message.
    assert!(skipped + messages(frames).len() * b"8:[\"\",0,0],".len() <= stream.len());
}

/// Checks the properties for an input.
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
        let _ = message.event();
        assert_eq!(whole(&message.to_netstring(), LONGEST_MESSAGE), [Frame::Message(message.clone())]);
    }
    // The start of this message cannot continue any JSON.
    let known = Message::new("end", json!(7));
    let behind = whole(&[stream, &known.to_netstring()].concat(), longest);
    assert_eq!(messages(&behind), [messages(&frames), vec![&known]].concat());
    let before = whole(&[&known.to_netstring(), stream].concat(), longest);
    assert_eq!(messages(&before), [vec![&known], messages(&frames)].concat());

    let name = String::from_utf8_lossy(stream);
    let made = Message::part(&name, stream).of_child("child").of_child(&name);
    assert_eq!(whole(&made.to_netstring(), LONGEST_MESSAGE), [Frame::Message(made)]);
}
