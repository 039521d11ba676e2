//! What `stock` must do, by example.

use super::*;

fn rooms(stock: &Stock, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| stock.take()).collect()
}

fn held(stock: &Stock) -> usize {
    stock.bytes() as usize / BLOCK_BYTES
}

/// As if no room had been asked for in so many periods.
fn pass(stock: &Stock, periods: u32) {
    stock.rooms.lock().since -= PERIOD * periods;
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
    pass(&stock, 1);
    stock.settle();
    assert_eq!(held(&stock), 10, "they were asked for in the period before");
    pass(&stock, 1);
    stock.settle();
    assert_eq!(held(&stock), 2);
}

#[test]
fn what_is_put_back_and_not_asked_for_thins_the_stock_out() {
    let stock = Stock::new(1);
    let mut late = rooms(&stock, 10);
    late.split_off(5).into_iter().for_each(|room| stock.put(room));
    assert_eq!(held(&stock), 5);
    pass(&stock, 3);
    for left in [3, 1, 1] {
        stock.put(late.pop().unwrap());
        assert_eq!(held(&stock), left);
    }
}

#[test]
fn one_is_given_up_where_memory_is_wanted_for_something_else() {
    let stock = Stock::new(1);
    rooms(&stock, 3).into_iter().for_each(|room| stock.put(room));
    stock.shrink();
    assert_eq!(held(&stock), 2);
    (0..3).for_each(|_| stock.shrink());
    assert_eq!(held(&stock), 0);
}
