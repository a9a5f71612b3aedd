//! Breadth-first search that keeps the visited nodes in a Vec.
//! planted: linear-search
use std::collections::VecDeque;

struct Graph {
    edges: Vec<Vec<u32>>,
}

impl Graph {
    fn random(nodes: u32) -> Self {
        let mut random = lab_corpus::Random(5);
        let edges = (0..nodes).map(|at| {
            let mut next: Vec<u32> = (0..3).map(|_| random.below(u64::from(nodes)) as u32).collect();
            next.push((at + 1) % nodes);
            next
        });
        Self { edges: edges.collect() }
    }
}

fn reached_by_list(graph: &Graph) -> u64 {
    let (mut visited, mut queue) = (vec![0], VecDeque::from([(0, 0)]));
    let mut sum = 0;
    while let Some((node, depth)) = queue.pop_front() {
        sum += depth;
        for &next in &graph.edges[node as usize] {
            if !visited.contains(&next) {
                visited.push(next);
                queue.push_back((next, depth + 1));
            }
        }
    }
    sum
}

fn reached_by_flags(graph: &Graph) -> u64 {
    let mut visited = vec![false; graph.edges.len()];
    let mut queue = VecDeque::from([(0, 0)]);
    visited[0] = true;
    let mut sum = 0;
    while let Some((node, depth)) = queue.pop_front() {
        sum += depth;
        for &next in &graph.edges[node as usize] {
            if !std::mem::replace(&mut visited[next as usize], true) {
                queue.push_back((next, depth + 1));
            }
        }
    }
    sum
}

fn main() {
    let slow = lab_corpus::is_slow();
    let graph = Graph::random(60_000);
    println!("{}", if slow { reached_by_list(&graph) } else { reached_by_flags(&graph) });
}
