//! Parses expressions into boxed nodes and throws the tree away after each evaluation.
//! planted: allocator-heavy, drop-heavy
enum Node {
    Number(i64),
    Sum(Box<Node>, Box<Node>),
}

fn parse(numbers: &[i64]) -> Box<Node> {
    match numbers {
        [one] => Box::new(Node::Number(*one)),
        _ => {
            let (left, right) = numbers.split_at(numbers.len() / 2);
            Box::new(Node::Sum(parse(left), parse(right)))
        }
    }
}

fn value(node: &Node) -> i64 {
    match node {
        Node::Number(number) => *number,
        Node::Sum(left, right) => value(left) + value(right),
    }
}

fn main() {
    let slow = lab_corpus::is_slow();
    let numbers: Vec<i64> = (0..1024).collect();
    let tree = parse(&numbers);
    let mut sum = 0;
    for round in 0..14_000 {
        sum += round + if slow { value(&parse(&numbers)) } else { value(&tree) };
    }
    println!("{sum}");
}
