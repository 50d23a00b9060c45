//! Messages of D-Bus in their wire format (D-Bus Specification, "Message Protocol").

use super::BusError;

/// Maximum size of a message in bytes. The list of 50,000 units is smaller.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Size in bytes of the part of a header that has a constant size.
const FIXED: usize = 16;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// Type of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MessageKind {
    #[default]
    Call,
    Return,
    Error,
    Signal,
}

impl MessageKind {
    fn code(self) -> u8 {
        match self {
            MessageKind::Call => 1,
            MessageKind::Return => 2,
            MessageKind::Error => 3,
            MessageKind::Signal => 4,
        }
    }

    fn of(code: u8) -> Option<MessageKind> {
        [MessageKind::Call, MessageKind::Return, MessageKind::Error, MessageKind::Signal]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// A message. Header fields that it does not have are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusMessage {
    pub(crate) kind: MessageKind,
    pub(crate) serial: u32,
    /// Serial of the answered call; 0 if the message is no answer.
    pub(crate) answers: u32,
    pub(crate) path: String,
    pub(crate) interface: String,
    pub(crate) member: String,
    pub(crate) error: String,
    pub(crate) destination: String,
    /// Signature of the body.
    pub(crate) signature: String,
    pub(crate) body: Vec<u8>,
    pub(crate) is_big_endian: bool,
}

impl BusMessage {
    /// Returns a reader of the body if it has this signature.
    pub(crate) fn reader(&self, signature: &str) -> Result<Reader<'_>, BusError> {
        if self.signature != signature {
            return Err(BusError::Malformed("an answer has another type than the documented one"));
        }
        Ok(Reader::new(&self.body, self.is_big_endian))
    }

    /// Returns a reader of the body if the type of its first value is `signature`.
    pub(crate) fn first(&self, signature: &str) -> Result<Reader<'_>, BusError> {
        if !self.signature.starts_with(signature) {
            return Err(BusError::Malformed("a signal has another type than the documented one"));
        }
        Ok(Reader::new(&self.body, self.is_big_endian))
    }

    /// Returns the message in its wire format, in little-endian order.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = Body::default();
        let texts = [
            (PATH, "o", &self.path),
            (INTERFACE, "s", &self.interface),
            (MEMBER, "s", &self.member),
            (ERROR_NAME, "s", &self.error),
            (DESTINATION, "s", &self.destination),
            (SIGNATURE, "g", &self.signature),
        ];
        for (code, signature, text) in texts.into_iter().filter(|(.., text)| !text.is_empty()) {
            fields.field(code, signature);
            if signature == "g" { fields.signature(text) } else { fields.string(text) }
        }
        if self.answers != 0 {
            fields.field(REPLY_SERIAL, "u");
            fields.u32(self.answers);
        }
        let mut header = Body { bytes: vec![b'l', self.kind.code(), 0, 1] };
        header.u32(self.body.len() as u32);
        header.u32(self.serial);
        header.u32(fields.bytes.len() as u32);
        header.bytes.extend_from_slice(&fields.bytes);
        header.align(8);
        header.bytes.extend_from_slice(&self.body);
        header.bytes
    }

    /// Takes the first message from `bytes`. Returns none if it is incomplete.
    ///
    /// # Errors
    /// If the bytes are not a message, or if it is too large.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Result<Option<BusMessage>, BusError> {
        let Some(size) = BusMessage::size(bytes)? else { return Ok(None) };
        if bytes.len() < size {
            return Ok(None);
        }
        let message = BusMessage::decode(&bytes[..size])?;
        bytes.drain(..size);
        Ok(Some(message))
    }

    /// Returns the size of the first message in `bytes`, if its header is complete enough.
    fn size(bytes: &[u8]) -> Result<Option<usize>, BusError> {
        let Some(fixed) = bytes.first_chunk::<FIXED>() else { return Ok(None) };
        let is_big_endian = match fixed[0] {
            b'l' => false,
            b'B' => true,
            _ => return Err(BusError::Malformed("the byte order of a message is unknown")),
        };
        if fixed[3] != 1 {
            return Err(BusError::Malformed("a message has an unknown version"));
        }
        let mut sizes = Reader::new(&fixed[4..], is_big_endian);
        let (body, _serial, fields) = (sizes.u32()? as usize, sizes.u32()?, sizes.u32()? as usize);
        if body > MAX_MESSAGE_BYTES || fields > MAX_MESSAGE_BYTES {
            return Err(BusError::Malformed("a message is too large"));
        }
        Ok(Some((FIXED + fields).next_multiple_of(8) + body))
    }

    fn decode(bytes: &[u8]) -> Result<BusMessage, BusError> {
        let is_big_endian = bytes[0] == b'B';
        let mut reader = Reader::new(bytes, is_big_endian);
        reader.at = 4;
        let (body, serial) = (reader.u32()? as usize, reader.u32()?);
        let mut message = BusMessage { serial, is_big_endian, ..BusMessage::default() };
        // An unknown type is ignored, like a signal without a name.
        message.kind = MessageKind::of(bytes[1]).unwrap_or(MessageKind::Signal);
        reader.array(8, |reader| {
            reader.structure();
            let (code, signature) = (reader.byte()?, reader.signature()?);
            match (code, signature) {
                (PATH, "o") => message.path = reader.string()?.into(),
                (INTERFACE, "s") => message.interface = reader.string()?.into(),
                (MEMBER, "s") => message.member = reader.string()?.into(),
                (ERROR_NAME, "s") => message.error = reader.string()?.into(),
                (DESTINATION, "s") => message.destination = reader.string()?.into(),
                (SIGNATURE, "g") => message.signature = reader.signature()?.into(),
                (REPLY_SERIAL, "u") => message.answers = reader.u32()?,
                (_, "s" | "o") => drop(reader.string()?),
                (_, "g") => drop(reader.signature()?),
                (_, "u") => drop(reader.u32()?),
                _ => return Err(BusError::Malformed("a header has a field of an unknown type")),
            }
            Ok(())
        })?;
        message.body = bytes[bytes.len() - body..].to_vec();
        Ok(message)
    }
}

/// Body of a message that is being written, in little-endian order.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
}

impl Body {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn field(&mut self, code: u8, signature: &str) {
        self.align(8);
        self.bytes.push(code);
        self.signature(signature);
    }

    pub(crate) fn signature(&mut self, text: &str) {
        self.bytes.push(text.len() as u8);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes a text or the path of an object.
    pub(crate) fn string(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    pub(crate) fn strings(&mut self, texts: &[&str]) {
        self.array(4, |body| texts.iter().for_each(|text| body.string(text)));
    }

    /// Writes an array whose elements have this alignment.
    pub(crate) fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Body)) {
        self.u32(0);
        let size = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        elements(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[size..size + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Begins a structure.
    #[cfg(test)]
    pub(crate) fn structure(&mut self) {
        self.align(8);
    }
}

/// Reader of a part of a message. Every read checks its bounds.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big_endian: bool,
}

const TRUNCATED: BusError = BusError::Malformed("a message is shorter than its fields");

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], is_big_endian: bool) -> Reader<'a> {
        Reader { bytes, at: 0, is_big_endian }
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to).min(self.bytes.len());
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], BusError> {
        let end = self.at.checked_add(size).ok_or(TRUNCATED)?;
        let taken = self.bytes.get(self.at..end).ok_or(TRUNCATED)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, BusError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BusError> {
        self.align(4);
        let bytes = *self.take(4)?.first_chunk().ok_or(TRUNCATED)?;
        Ok(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(crate) fn i32(&mut self) -> Result<i32, BusError> {
        Ok(self.u32()?.cast_signed())
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BusError> {
        self.align(8);
        let bytes = *self.take(8)?.first_chunk().ok_or(TRUNCATED)?;
        Ok(if self.is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, BusError> {
        Ok(self.u32()? != 0)
    }

    /// Reads a text or the path of an object.
    pub(crate) fn string(&mut self) -> Result<&'a str, BusError> {
        let size = self.u32()? as usize;
        self.text(size)
    }

    pub(crate) fn signature(&mut self) -> Result<&'a str, BusError> {
        let size = usize::from(self.byte()?);
        self.text(size)
    }

    fn text(&mut self, size: usize) -> Result<&'a str, BusError> {
        let text = std::str::from_utf8(self.take(size)?).map_err(|_| BusError::Malformed("a text is not UTF-8"))?;
        self.byte()?;
        Ok(text)
    }

    /// Begins the read of a structure.
    pub(crate) fn structure(&mut self) {
        self.align(8);
    }

    /// Reads the elements of an array, which have this alignment.
    pub(crate) fn array(
        &mut self,
        alignment: usize,
        mut element: impl FnMut(&mut Reader<'a>) -> Result<(), BusError>,
    ) -> Result<(), BusError> {
        let size = self.u32()? as usize;
        self.align(alignment);
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len()).ok_or(TRUNCATED)?;
        while self.at < end {
            let before = self.at;
            element(self)?;
            if self.at == before {
                return Err(TRUNCATED);
            }
        }
        if self.at == end { Ok(()) } else { Err(TRUNCATED) }
    }

    pub(crate) fn strings(&mut self) -> Result<Vec<&'a str>, BusError> {
        let mut texts = Vec::new();
        self.array(4, |reader| {
            texts.push(reader.string()?);
            Ok(())
        })?;
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> BusMessage {
        let mut body = Body::default();
        body.strings(&["a.service", "b"]);
        body.u32(1);
        BusMessage {
            serial: 7,
            path: "/a".into(),
            interface: "i.f".into(),
            member: "M".into(),
            destination: "d".into(),
            signature: "asb".into(),
            body: body.bytes,
            ..BusMessage::default()
        }
    }

    #[test]
    fn message_has_the_documented_bytes() {
        // As dbus-monitor shows it: `Hello` without a body.
        let hello = BusMessage {
            serial: 1,
            path: "/".into(),
            member: "Hello".into(),
            destination: "x".into(),
            ..BusMessage::default()
        };
        let expected = b"l\x01\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x2a\x00\x00\x00\
            \x01\x01o\x00\x01\x00\x00\x00/\x00\x00\x00\x00\x00\x00\x00\
            \x03\x01s\x00\x05\x00\x00\x00Hello\x00\x00\x00\
            \x06\x01s\x00\x01\x00\x00\x00x\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(hello.encode(), expected);
    }

    #[test]
    fn messages_are_taken_from_a_stream_byte_by_byte() {
        let mut stream = call().encode();
        stream.extend(call().encode());
        let (mut bytes, mut taken) = (Vec::new(), 0);
        for byte in stream {
            bytes.push(byte);
            if let Some(message) = BusMessage::take(&mut bytes).unwrap() {
                taken += 1;
                assert_eq!((message.kind, message.serial, message.member.as_str()), (MessageKind::Call, 7, "M"));
                let mut reader = message.reader("asb").unwrap();
                assert_eq!(reader.strings().unwrap(), ["a.service", "b"]);
                assert!(reader.boolean().unwrap());
                assert!(reader.byte().is_err(), "the body has ended");
                assert!(message.reader("s").is_err());
            }
        }
        assert_eq!((taken, bytes.len()), (2, 0));
    }

    #[test]
    fn damaged_messages_are_refused_or_incomplete() {
        let good = call().encode();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                // No damage may panic, read out of bounds, or allocate what a length claims.
                if let Ok(Some(message)) = BusMessage::take(&mut bytes) {
                    let _ = message.reader("asb").and_then(|mut reader| reader.strings().map(|texts| texts.len()));
                }
            }
        }
        let mut huge = good.clone();
        huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(BusMessage::take(&mut huge), Err(BusError::Malformed(_))));
    }

    #[test]
    fn big_endian_messages_are_read() {
        let mut bytes = b"B\x02\x00\x01\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x0f".to_vec();
        bytes.extend(b"\x05\x01u\x00\x00\x00\x00\x09\x08\x01g\x00\x01u\x00\x00");
        bytes.extend(b"\x00\x00\x01\x00");
        let message = BusMessage::take(&mut bytes).unwrap().unwrap();
        assert_eq!((message.kind, message.answers), (MessageKind::Return, 9));
        assert_eq!(message.reader("u").unwrap().u32().unwrap(), 256);
    }
}
