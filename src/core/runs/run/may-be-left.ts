/**
 * A call that the handler may leave behind without waiting for it. When the run ends it rejects, and a rejection that
 * nobody takes would end the process, and all other jobs with it. What became of the call is in the record.
 */
export function mayBeLeft<T>(call: Promise<T>): Promise<T> {
  call.catch(() => {});
  return call;
}
