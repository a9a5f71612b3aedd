//! Works through a queue of jobs, and takes them from the front of a Vec.
//! planted: front-removal
use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Job {
    id: u64,
    left: u32,
}

trait Queue {
    fn take(&mut self) -> Option<Job>;
    fn put(&mut self, job: Job);
}

impl Queue for Vec<Job> {
    fn take(&mut self) -> Option<Job> {
        if self.is_empty() { None } else { Some(self.remove(0)) }
    }
    fn put(&mut self, job: Job) {
        self.push(job);
    }
}

impl Queue for VecDeque<Job> {
    fn take(&mut self) -> Option<Job> {
        self.pop_front()
    }
    fn put(&mut self, job: Job) {
        self.push_back(job);
    }
}

fn work(queue: &mut impl Queue) -> u64 {
    let mut checksum = 0u64;
    for id in 0..40_000 {
        queue.put(Job { id, left: 2 });
    }
    while let Some(mut job) = queue.take() {
        checksum = checksum.rotate_left(5) ^ job.id;
        job.left -= 1;
        if job.left > 0 {
            queue.put(job);
        }
    }
    checksum
}

fn main() {
    let slow = lab_corpus::is_slow();
    println!("{}", if slow { work(&mut Vec::new()) } else { work(&mut VecDeque::new()) });
}
