// @long
import { expect, it } from "vitest";
import { limitOf, shareOf } from "../_share.ts";
import { PROCESS_TIME } from "../cli/_svc.ts";
import { TwiceDesk } from "./_twice-desk.ts";
import { countsOf, HELD, type Made, ROWS, requestOf } from "./_twice-rows.ts";

const SHARES = 4;

/** Members whose names are the sender's own. */
const FREE: readonly (readonly [of: RegExp, path: RegExp])[] = [
  [/^POST \/events\/\{name\}$/, /^data\./],
  [/^POST \/agents\/\{slug\}\/(status|chat)$/, /^params\./],
];
/** Protocols demand that what is not known is ignored; what must be there is missed anyway. */
const PROTOCOLS = /^POST \/(v1|a2a|mcp|ag-ui|chat)\b/;

interface Renamed {
  readonly path: string;
  readonly name: string;
  readonly json: unknown;
}

/** The body with one of its members under another name, for each member at any depth. */
function renamedIn(json: unknown, path = ""): Renamed[] {
  if (Array.isArray(json)) {
    return json.flatMap((one, at) =>
      renamedIn(one, `${path}${at}.`).map((inner) => ({ ...inner, json: json.with(at, inner.json) })),
    );
  }
  if (typeof json !== "object" || json === null) return [];
  return Object.entries(json).flatMap(([name, value]) => {
    const { [name]: _, ...others } = json as Record<string, unknown>;
    const inner = renamedIn(value, `${path}${name}.`);
    return [
      { path: path + name, name: `${name}x`, json: { ...others, [`${name}x`]: value } },
      ...inner.map((one) => ({ ...one, json: { ...json, [name]: one.json } })),
    ];
  });
}

const withBody = ROWS.filter(({ of }) => !HELD.test(of)).map((row, at) => ({ row, at }));

it(
  "a documented request with one member renamed is refused by that name and has no effect, or at most one where a protocol ignores it",
  async () => {
    const desk = await TwiceDesk.open();
    const found: string[] = [];
    let tried = 0;
    for (const { row, at } of shareOf(withBody, SHARES)) {
      const id = `r${at}`;
      const sample = requestOf(row, id, madeOfAny());
      if (typeof sample.json !== "object" || renamedIn(sample.json).length === 0) continue;
      const made = ((await row.before?.(desk, id)) ?? {}) as Made;
      const request = requestOf(row, id, made);
      const mayIgnore = PROTOCOLS.test(row.of);
      let before = await countsOf(desk, row, { id, made });
      for (const { path, name, json } of renamedIn(request.json)) {
        if (FREE.some(([of, member]) => of.test(row.of) && member.test(path))) continue;
        tried++;
        const { status, body } = await desk.send({ ...request, json });
        const text = typeof body === "string" ? body : JSON.stringify(body);
        if (!mayIgnore && (status < 400 || !text.includes(name)))
          found.push(`${row.of}, ${path}: ${status} ${text}`);
        if (row.shared) continue;
        const after = await countsOf(desk, row, { id, made });
        const most = mayIgnore ? 1 : 0;
        for (const [count, value] of Object.entries(after)) {
          if (value - before[count]! > most)
            found.push(`${row.of}, ${path}: ${count} ${before[count]}, then ${value}`);
        }
        before = after;
      }
      await row.after?.(desk);
    }
    await desk.service.kill();

    expect(found).toEqual([]);
    expect(tried).toBeGreaterThan(SHARES * 5);
  },
  limitOf(PROCESS_TIME, SHARES),
);

/** Something for each name that a row may ask for: only which members a request has is read of it. */
function madeOfAny(): Made {
  return new Proxy({}, { get: () => "any" });
}
