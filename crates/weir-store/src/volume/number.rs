//! Numbers as the formats have them: little endian, read with a check of the bounds.

/// A cursor over bytes that may end too early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    left: &'a [u8],
}

/// The bytes end before what they promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { left: bytes }
    }

    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], TooShort> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(TooShort)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TooShort> {
        let (taken, left) = self.left.split_first_chunk::<N>().ok_or(TooShort)?;
        self.left = left;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TooShort> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TooShort> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TooShort> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, TooShort> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, TooShort> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, TooShort> {
        self.array().map(u128::from_le_bytes)
    }
}

/// Writing the same numbers.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, number: u8) {
        self.put(&[number]);
    }

    fn put_u16(&mut self, number: u16) {
        self.put(&number.to_le_bytes());
    }

    fn put_u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    fn put_i64(&mut self, number: i64) {
        self.put(&number.to_le_bytes());
    }

    fn put_u128(&mut self, number: u128) {
        self.put(&number.to_le_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
