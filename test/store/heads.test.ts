import { expect, it } from "vitest";
import { Heads, isPending, type LogHead } from "../../src/core/store/postgres/heads.ts";

it("a version that is in the database keeps nothing of the transaction that wrote it", () => {
  const heads = new Heads<LogHead>({ count: 10, size: 10 }, () => 0);
  const head: LogHead = { key: "Run\0a", log: "Run", id: "a", last: 1, by: { state: "stored" } };
  heads.add(head);

  heads.settle(head);

  expect(heads.kept(head.key)).toBe(head);
  expect(head.by).toBeUndefined();
  expect(isPending(head)).toBe(false);
});
