//! What `stock` must do, by example.

use super::*;

fn rooms(stock: &Stock, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| stock.take()).collect()
}

fn held(stock: &Stock) -> usize {
    stock.bytes() as usize / BLOCK_BYTES
}

#[test]
fn the_room_that_came_last_leaves_first() {
    let stock = Stock::new(4);
    let taken = rooms(&stock, 2);
    let last = taken[1].as_ptr();
    taken.into_iter().for_each(|room| stock.put(room));
    let again = stock.take();
    assert_eq!((again.as_ptr(), again.len(), again.capacity()), (last, 0, BLOCK_BYTES));
}

#[test]
fn as_many_stay_as_were_asked_for_lately() {
    let stock = Stock::new(2);
    rooms(&stock, 10).into_iter().for_each(|room| stock.put(room));
    assert_eq!(held(&stock), 10);
    assert!(stock.settle());
    assert_eq!(held(&stock), 10, "they were asked for since the call before");
    assert!(stock.settle());
    assert_eq!(held(&stock), 10, "and since the one before that");
    assert!(!stock.settle());
    assert_eq!(held(&stock), 2);
    let mut late = rooms(&stock, 2);
    late.extend((0..8).map(|_| Vec::with_capacity(BLOCK_BYTES)));
    late.into_iter().for_each(|room| stock.put(room));
    assert_eq!(held(&stock), 2, "nobody has asked for the others");
}

#[test]
fn a_large_stock_goes_bit_by_bit() {
    let stock = Stock::new(1);
    rooms(&stock, 600).into_iter().for_each(|room| stock.put(room));
    let left: Vec<_> = (0..5).map(|_| (stock.settle(), held(&stock))).collect();
    assert_eq!(left, [(true, 600), (true, 600), (true, 344), (true, 88), (false, 1)]);
}

#[test]
fn one_is_given_up_where_memory_is_wanted_for_something_else() {
    let stock = Stock::new(1);
    rooms(&stock, 2).into_iter().for_each(|room| stock.put(room));
    assert!(stock.shrink() && stock.shrink());
    assert!(!stock.shrink() && held(&stock) == 0);
}
