//! Walks a syntax tree by recursion, as one does.
//! planted: nothing
enum Expression {
    Number(i64),
    Add(Box<Expression>, Box<Expression>),
    Multiply(Box<Expression>, Box<Expression>),
    Negate(Box<Expression>),
}

fn grow(random: &mut lab_corpus::Random, depth: u32) -> Box<Expression> {
    let kind = if depth == 0 { 0 } else { random.below(3) + 1 };
    Box::new(match kind {
        0 => Expression::Number(random.below(9) as i64),
        1 => Expression::Add(grow(random, depth - 1), grow(random, depth - 1)),
        2 => Expression::Multiply(grow(random, depth - 1), grow(random, depth - 1)),
        _ => Expression::Negate(grow(random, depth - 1)),
    })
}

fn evaluate(node: &Expression) -> i64 {
    match node {
        Expression::Number(number) => *number,
        Expression::Add(left, right) => evaluate(left).wrapping_add(evaluate(right)),
        Expression::Multiply(left, right) => evaluate(left).wrapping_mul(evaluate(right)),
        Expression::Negate(inner) => evaluate(inner).wrapping_neg(),
    }
}

fn main() {
    let tree = grow(&mut lab_corpus::Random(3), 20);
    let mut sum = 0i64;
    for _ in 0..600 {
        sum = sum.wrapping_add(evaluate(std::hint::black_box(&tree)));
    }
    println!("{sum}");
}
