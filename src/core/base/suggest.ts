/** The candidate closest to a mistyped word, where one is close enough to be meant. */
export function suggest(word: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    const close =
      candidate.startsWith(word) && word.length > 1
        ? 1
        : isPart(word, candidate)
          ? Math.min(2, distance)
          : distance;
    if (close >= least) continue;
    best = candidate;
    least = close;
  }
  return best;
}

/** Whether a word is one of those in a name such as `job_fields`. */
function isPart(word: string, candidate: string): boolean {
  return word.length > 3 && candidate.toLowerCase().split(/[-_.]/).includes(word.toLowerCase());
}

/** Letters to insert, remove, replace or swap to get from one word to the other. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, replaced);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
