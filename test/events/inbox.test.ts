import { expect, it } from "vitest";
import { Inbox } from "../../src/cli/control/inbox.ts";
import { describeReceived } from "../../src/cli/control.ts";

const message = (key: string, body: unknown = {}) => ({
  kind: "event" as const,
  key,
  headers: {},
  body,
  problems: [],
});

it("the development control system forgets keys together with the messages that it no longer stores", () => {
  const inbox = new Inbox(10);
  for (let n = 0; n < 100; n++) inbox.add(message(`k${n}`));

  expect(inbox.add(message("k99")).duplicate).toBe(true);
  expect(inbox.add(message("k0")).duplicate).toBe(false);
});

it("a message with any JSON is shown", () => {
  const inbox = new Inbox(10);

  expect(describeReceived(inbox.add(message("k", null)))).toContain("event");
});
