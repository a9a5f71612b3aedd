//! Sums the areas of shapes behind boxed trait objects.
//! planted: dyn-calls
//! also: pointer-chase, serial-chain
trait Shape {
    fn area(&self) -> f64;
}

struct Square(f64);
struct Disc(f64);
struct Strip(f64, f64);

impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Disc {
    fn area(&self) -> f64 {
        self.0 * self.0 * 3.0
    }
}
impl Shape for Strip {
    fn area(&self) -> f64 {
        self.0 * self.1
    }
}

enum AnyShape {
    Square(Square),
    Disc(Disc),
    Strip(Strip),
}

fn total(shapes: &[Box<dyn Shape>]) -> f64 {
    let mut sum = 0.0;
    for shape in shapes {
        sum += shape.area();
    }
    sum
}

fn total_of_enum(shapes: &[AnyShape]) -> f64 {
    let mut sum = 0.0;
    for shape in shapes {
        sum += match shape {
            AnyShape::Square(square) => square.area(),
            AnyShape::Disc(disc) => disc.area(),
            AnyShape::Strip(strip) => strip.area(),
        };
    }
    sum
}

fn main() {
    let slow = lab_corpus::is_slow();
    let sizes = (0..4_096).map(|at| f64::from(at % 17));
    let boxed: Vec<Box<dyn Shape>> = sizes.clone().enumerate().map(|(at, size)| -> Box<dyn Shape> {
        match at % 3 { 0 => Box::new(Square(size)), 1 => Box::new(Disc(size)), _ => Box::new(Strip(size, 2.0)) }
    }).collect();
    let plain: Vec<AnyShape> = sizes.enumerate().map(|(at, size)| {
        match at % 3 { 0 => AnyShape::Square(Square(size)), 1 => AnyShape::Disc(Disc(size)), _ => AnyShape::Strip(Strip(size, 2.0)) }
    }).collect();
    let mut sum = 0.0;
    for _ in 0..50_000 {
        sum += if slow { total(std::hint::black_box(&boxed)) } else { total_of_enum(std::hint::black_box(&plain)) };
    }
    println!("{sum}");
}
