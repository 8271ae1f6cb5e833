import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const at = (path: string) => new URL(`../../${path}`, import.meta.url);
const read = (path: string) => readFileSync(at(path), "utf8");
/** The cells of the rows below a heading, without the heading of the table. */
const rowsBelow = (text: string, heading: string) =>
  text
    .slice(text.indexOf(`\n${heading}\n`))
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

/** What shows that a row of SECURITY.md is true: tests, by their file and a part of their title. */
const SHOWN_BY: Readonly<Record<string, readonly string[]>> = {
  "Holders of the API key": ["access/rights: every route of the service", "http/secrets: "],
  "Holders of a named key": [
    "access/sight: ",
    "access/keys: is out as soon as it is removed, with its streams",
  ],
  "People with an admin session": ["admin/session: shows who is signed in, and signs out one or all of them"],
  "People whom a provider or a proxy vouches for": [
    "access/oidc: within a minute",
    "access/proxy: is out immediately once an administrator has removed it",
  ],
  "Programs with an access token of a person": ["access/mcp-authorization: "],
  "Pages with a token of a job": ["gate/tokens: opens exactly the routes of its job that its scope names"],
  "Holders of a link to a question": ["admin/answer-links: a link answers one question for one person"],
  "Holders of a one-time sign-in link": [
    "admin/session: a sign-in link works once, and not after it has expired",
  ],
  "Senders of signed events": ["http/receivers: without a right signature of %s nothing is stored"],
  "Code of agents, plugins and the controller": ["http/secrets: "],
  "Code of agents with `isolate`": ["runs/isolate: "],
  "What agents say: results, messages, cases, model output": ["admin/injection: ", "events/leaks: "],
  "The control system": ["events/parameters: "],
  "Anyone who can read the data folder": [
    "http/data-folder: ",
    "store/encryption: has none of the content of jobs",
  ],
  "Anyone who can read the database, the bucket or a backup": [
    "store/encryption: has none of it in a backup, which its key reads",
    "access/keys: is shown once, and only its hash is stored",
  ],
  "A proxy named in `trustProxy`": ["http/auth: no header is trusted unless proxies are configured"],
  "Callers without a key": [
    "access/rights: what needs nothing is what anybody may know or do for themselves",
  ],
};

it("each row of SECURITY.md names a test that shows it", () => {
  const who = rowsBelow(read("SECURITY.md"), "## Who is trusted with what").map(([cell = ""]) =>
    cell.replace(/\[([^\]]+)\]\([^)]+\)/g, "$1"),
  );
  const missing = Object.values(SHOWN_BY)
    .flat()
    .filter((shown) => {
      const [file, title = ""] = shown.split(/: (.*)/);
      return !existsSync(at(`test/${file}.test.ts`)) || !read(`test/${file}.test.ts`).includes(title);
    });

  expect(Object.keys(SHOWN_BY).sort()).toEqual(who.sort());
  expect(missing).toEqual([]);
});

it("each chapter of the ASVS has a state, and tests that exist", () => {
  const rows = rowsBelow(read("docs/security.md"), "## ASVS");
  const named = rows.flatMap(([chapter, , tests = ""]) =>
    [...tests.matchAll(/`([^`]+)`/g)].map(([, file]) => [chapter, `test/${file}.test.ts`] as const),
  );
  const untested = rows.filter(([, state, tests]) => state !== "Not used" && !tests);

  expect(rows.map(([chapter]) => chapter?.split(" ")[0])).toEqual(
    Array.from({ length: 17 }, (_, index) => `V${index + 1}`),
  );
  expect(rows.filter(([, state]) => !state)).toEqual([]);
  expect(untested).toEqual([]);
  expect(named.filter(([, file]) => !existsSync(at(file)))).toEqual([]);
});
