/** A value that is available now, or later. */
export type MaybePromise<T> = T | Promise<T>;

/** Continues with a value: synchronously if it is available. */
export function andThen<T, R>(value: MaybePromise<T>, next: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
