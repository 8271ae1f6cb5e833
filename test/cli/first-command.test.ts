import { file } from "agent-control-service";
import * as v from "valibot";
import { expect, it } from "vitest";
import { firstCommand } from "../../src/cli/first-command.ts";
import { readFields } from "../../src/core/agents/fields.ts";

it("the command to try an agent has a place for each required input, with @ in front of a file", () => {
  const { list: fields } = readFields(
    v.object({ contract: file(), sum: v.number(), note: v.optional(v.string()) }),
  );
  expect(firstCommand("reader", { fields, chats: false })).toBe(
    "npx svc job start reader --field contract=@… --field sum=… --wait",
  );
});
