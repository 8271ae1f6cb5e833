/**
 * Makes a function that calls `work` unless a call is under way: then once more after it, as that one may have missed what
 * this one is about. Resolves when no call is left; `work` must not reject.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let isWanted = false;
  let isWorking = false;
  let working = Promise.resolve();
  const workOn = async () => {
    while (isWanted) {
      isWanted = false;
      await work();
    }
    isWorking = false;
  };
  return () => {
    isWanted = true;
    if (isWorking) return working;
    // Set first: `work` may ask for itself before it waits for anything.
    isWorking = true;
    working = workOn();
    return working;
  };
}
