//! The slow program that `whyslow lab` records: a shop's monthly report, written in a hurry.
//!
//! [`run`] does the job and prints nothing. [`ANSWER`] says what is slow, where,
//! and how to fix it, so that a new user can compare the profile with the truth.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What is slow in this program, to print after its profile.
pub const ANSWER: Answer = Answer {
    function: "find_customer",
    file: "lab/demo/src/lib.rs",
    line: 83,
    share: 0.8,
    cause: "every order looks for its customer from the start of the list: orders × customers comparisons",
    fix: "build a HashMap from customer number to customer once, before the loop",
    second_function: "receipt",
    second_share: 0.2,
    second_cause: "the text is copied into a new allocation for every line that is added to it",
    second_fix: "write into one String (push_str, or write! as in `summary`)",
};

/// A known answer: where the time goes, why, and what to change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The function with the largest share of the time, without its path.
    pub function: &'static str,
    /// The file of that function, relative to the root of the sources.
    pub file: &'static str,
    /// The line that takes the time, from 1.
    pub line: u32,
    /// Approximate share of the CPU time. It depends on the machine.
    pub share: f64,
    /// Why it takes so long.
    pub cause: &'static str,
    /// What to change.
    pub fix: &'static str,
    /// The function with the second largest share, including its callees.
    pub second_function: &'static str,
    /// Approximate share of the CPU time, including its callees.
    pub second_share: f64,
    /// Why it takes so long.
    pub second_cause: &'static str,
    /// What to change about it.
    pub second_fix: &'static str,
}

struct Customer {
    number: u64,
    name: String,
    discount_percent: u64,
}

struct Order {
    customer: u64,
    cents: u64,
}

/// Repeats the job until about `seconds` have passed.
pub fn run(seconds: f64) {
    let start = Instant::now();
    let limit = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
    let customers = load_customers(8_000);
    let mut month = 0;
    while month == 0 || start.elapsed() < limit {
        let orders = load_orders(month, 2_000, &customers);
        black_box(monthly_report(&customers, &orders));
        month += 1;
    }
}

#[inline(never)]
fn monthly_report(customers: &[Customer], orders: &[Order]) -> (String, String) {
    let revenue = bill(customers, orders);
    (receipt(orders), summary(orders.len(), revenue))
}

#[inline(never)]
#[expect(clippy::manual_find, reason = "a plain loop has its cost on a single line")]
fn find_customer(customers: &[Customer], number: u64) -> Option<&Customer> {
    for customer in customers {
        if customer.number == number {
            return Some(customer);
        }
    }
    None
}

#[inline(never)]
fn bill(customers: &[Customer], orders: &[Order]) -> u64 {
    let mut revenue = 0;
    for order in orders {
        if let Some(customer) = find_customer(customers, order.customer) {
            revenue += order.cents * (100 - customer.discount_percent) / 100;
        }
    }
    revenue
}

#[inline(never)]
fn receipt(orders: &[Order]) -> String {
    let mut text = String::new();
    for order in orders {
        text = format!("{text}{};{}\n", order.customer, order.cents);
    }
    text
}

#[inline(never)]
fn summary(orders: usize, revenue: u64) -> String {
    let mut text = String::new();
    let _ = write!(text, "{orders} orders, {}.{:02} in total", revenue / 100, revenue % 100);
    text
}

#[inline(never)]
fn load_customers(count: u64) -> Vec<Customer> {
    (0..count)
        .map(|i| Customer { number: 10_000 + i, name: format!("customer {i}"), discount_percent: i % 7 })
        .collect()
}

#[inline(never)]
fn load_orders(month: u64, count: usize, customers: &[Customer]) -> Vec<Order> {
    let mut x = month + 1;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..count)
        .map(|_| {
            let customer = &customers[random() as usize % customers.len()];
            Order { customer: customer.number, cents: 100 + customer.name.len() as u64 + random() % 10_000 }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_names_the_line_of_the_search() {
        let line = include_str!("lib.rs").lines().nth(ANSWER.line as usize - 1).unwrap();
        assert!(line.contains("customer.number == number"), "{line}");
    }

    #[test]
    fn report_is_correct() {
        let customers = load_customers(10);
        let orders = [Order { customer: 10_003, cents: 1000 }, Order { customer: 10_000, cents: 50 }];
        assert_eq!(bill(&customers, &orders), 970 + 50);
        assert_eq!(receipt(&orders), "10003;1000\n10000;50\n");
        assert_eq!(summary(2, 1020), "2 orders, 10.20 in total");
        assert!(find_customer(&customers, 1).is_none());
    }

    #[test]
    fn a_run_ends() {
        run(0.0);
    }
}
