//! A second reader of `viewer/PAYLOAD.md`, written independently of the writer.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

pub(crate) const NONE: u32 = u32::MAX;

/// A decoded container.
pub(crate) struct Payload {
    pub(crate) header: Value,
    columns: BTreeMap<String, (String, Vec<u8>)>,
}

impl Payload {
    pub(crate) fn decode(zipped: &[u8]) -> Self {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(zipped).read_to_end(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        let data = (4 + length).next_multiple_of(8);
        assert!(bytes[4 + length..data].iter().all(|byte| *byte == 0));
        let mut columns = BTreeMap::new();
        let mut end_of_all = data;
        for (name, column) in header["columns"].as_object().unwrap() {
            let number = |field: &str| usize::try_from(column[field].as_u64().unwrap()).unwrap();
            let kind = column["type"].as_str().unwrap();
            let size = match kind {
                "u8" => 1,
                "u32" => 4,
                "f64" => 8,
                other => panic!("{name} is {other}"),
            };
            assert_eq!(number("offset") % 8, 0, "{name}");
            let start = data + number("offset");
            let end = start + number("length") * size;
            end_of_all = end_of_all.max(end.next_multiple_of(8));
            columns.insert(name.clone(), (kind.to_owned(), bytes[start..end].to_vec()));
        }
        assert_eq!(bytes.len(), end_of_all, "nothing but columns");
        Self { header, columns }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.columns.keys().map(String::as_str).collect()
    }

    fn bytes(&self, name: &str, kind: &str) -> &[u8] {
        let (is, bytes) = &self.columns[name];
        assert_eq!(is, kind, "{name}");
        bytes
    }

    pub(crate) fn u8(&self, name: &str) -> Vec<u8> {
        self.bytes(name, "u8").to_vec()
    }

    pub(crate) fn u32(&self, name: &str) -> Vec<u32> {
        self.bytes(name, "u32").as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }

    pub(crate) fn f64(&self, name: &str) -> Vec<f64> {
        self.bytes(name, "f64").as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    }

    /// A column of texts.
    pub(crate) fn texts(&self, name: &str) -> Vec<Option<String>> {
        let (bytes, ends) = (self.u8("strings.bytes"), self.u32("strings.ends"));
        let text = |number: u32| {
            let number = number as usize;
            let start = if number == 0 { 0 } else { ends[number - 1] as usize };
            String::from_utf8(bytes[start..ends[number] as usize].to_vec()).unwrap()
        };
        self.u32(name).into_iter().map(|number| (number != NONE).then(|| text(number))).collect()
    }

    /// The times of the samples of the metric in this row in microseconds.
    pub(crate) fn times(&self, row: usize) -> Vec<u64> {
        let deltas = self.u32(&format!("samples.{row}.time_delta"));
        let summed = deltas.into_iter().scan(0u64, |time, delta| {
            *time += u64::from(delta);
            Some(*time)
        });
        summed.collect()
    }
}

/// The payload blocks of a page, each decoded separately.
pub(crate) fn blocks(page: &str) -> Vec<(usize, Vec<u8>)> {
    let tag = "<script type=\"application/octet-stream\" class=\"payload\">";
    let texts = page.split(tag).skip(1).map(|rest| rest.split("</script>").next().unwrap());
    texts.map(|text| (text.len(), base64(text))).collect()
}

fn base64(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 4, 0);
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64"),
    };
    let digits = text.trim_end_matches('=').bytes().map(value);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
