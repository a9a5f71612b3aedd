//! The classic: a linear search inside a loop, so that twice the data takes four times as long.
//!
//! Run: `quadratic [CUSTOMERS=70000]`; each customer has one order, and each order looks up its customer.
//!
//! THE KNOWN ANSWER: find_customer has over 95 % of the time. Half the customers take a quarter of it.

use std::hint::black_box;

struct Customer {
    number: u64,
    discount: u64,
}

#[inline(never)]
fn make_customers(count: u64) -> Vec<Customer> {
    (0..count).map(|i| Customer { number: i * 7 + 3, discount: i % 5 }).collect()
}

#[inline(never)]
fn find_customer(customers: &[Customer], number: u64) -> Option<&Customer> {
    customers.iter().find(|customer| black_box(customer.number) == number)
}

#[inline(never)]
fn bill(customers: &[Customer], orders: &[u64]) -> u64 {
    orders.iter().filter_map(|&number| find_customer(customers, number)).map(|c| 100 - c.discount).sum()
}

fn main() {
    let count = std::env::args().nth(1).map_or(70_000, |a| a.parse::<u64>().expect("a number"));
    let customers = make_customers(count);
    let orders: Vec<u64> = customers.iter().rev().map(|c| c.number).collect();
    black_box(bill(&customers, &orders));
    println!("comparisons {}", count * (count + 1) / 2);
    println!("least find_customer=0.95");
}
