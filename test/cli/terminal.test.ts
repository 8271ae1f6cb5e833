import { Writable } from "node:stream";
import { note } from "@clack/prompts";
import { expect, it } from "vitest";
import type { CliContext } from "../../src/cli/context.ts";
import { userName } from "../../src/cli/job/user-name.ts";
import { knownWidth } from "../../src/cli/known-width.ts";
import { createPaint } from "../../src/cli/paint.ts";
import { printable, withPrintable } from "../../src/cli/printable.ts";

it("an agent's text cannot control the terminal, and JSON stays JSON", () => {
  const hostile = "paid\u001b[2J\u009b31m\tin full\r\nok";

  expect(printable(hostile)).toBe("paid\\u001b[2J\\u009b31m\tin full\\u000d\nok");
  expect(JSON.parse(printable(JSON.stringify({ hostile })))).toEqual({ hostile });
});

it("an agent's text cannot use the colors of svc", () => {
  const printed: string[] = [];
  const paint = createPaint({ isTTY: true }, {});
  const context = { print: (line: string) => void printed.push(line), paint: { print: paint, note: paint } };
  const { print, paint: own } = withPrintable(context as unknown as CliContext);

  print(`${own!.print("red", "fai\u001bled")} \u001b[2J`);

  expect(printed).toEqual(["\u001b[31mfai\\u001bled\u001b[39m \\u001b[2J"]);
});

it.each([
  ["that does not know its width", { isTTY: true, columns: 0 }, 80],
  ["that knows its width", { isTTY: true, columns: 120 }, 120],
])("a form at a terminal %s has whole lines", (_which, { isTTY, columns }, expected) => {
  const lines: string[] = [];
  const output = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(...String(chunk).split("\n"));
        done();
      },
    }),
    { isTTY, columns },
  );
  knownWidth(output);

  note("Pay the invoice of Ada?", undefined, { output });

  expect(output.columns).toBe(expected);
  expect(lines.filter((line) => line.includes("Pay the invoice of Ada?"))).toHaveLength(1);
});

it("a user without a name in the system can start jobs", () => {
  const unknown = () => {
    throw Object.assign(new Error("uv_os_get_passwd returned ENOENT"), { code: "ERR_SYSTEM_ERROR" });
  };

  expect(userName({}, unknown)).toBe("unknown");
  expect(userName({ USER: "ada" }, unknown)).toBe("ada");
  expect(userName({ USER: "ada" }, () => ({ username: "grace" }))).toBe("grace");
});
