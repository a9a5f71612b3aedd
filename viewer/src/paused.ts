// Waits for a pause: of several quick values, only the last is used.

export class Paused<T> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private value: { last: T } | undefined;

  constructor(private readonly use: (value: T) => void, private readonly ms: number) {}

  /** Uses this value unless another comes within the pause. */
  set(last: T): void {
    this.drop();
    this.value = { last };
    this.timer = setTimeout(() => this.flush(), this.ms);
  }

  /** Uses the pending value now. Returns whether there was one. */
  flush(): boolean {
    const { value } = this;
    this.drop();
    if (value) this.use(value.last);
    return value !== undefined;
  }

  drop(): void {
    clearTimeout(this.timer);
    this.value = undefined;
  }
}
