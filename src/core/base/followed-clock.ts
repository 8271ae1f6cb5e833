/** The time of day: by the clock of this machine, until another one is followed, such as that of a store that several share. */
export class FollowedClock {
  #milliseconds: (() => number) | undefined;

  readonly now = (): Date => new Date(this.#milliseconds?.() ?? Date.now());

  /** Follows a clock that gives milliseconds since the epoch. */
  follow(milliseconds: () => number): void {
    this.#milliseconds = milliseconds;
  }
}
