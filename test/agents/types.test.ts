import {
  type CaseHandle,
  type Duration,
  defineAgent,
  isDuration,
  type JobHandle,
} from "agent-control-service";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

declare const job: JobHandle;
declare const item: CaseHandle;

/** Types are checked by the compiler: what it must refuse follows `@ts-expect-error`, and is never called. */
const compiles = (_work: () => unknown) => expect(true).toBe(true);

describe("the type of inputs", () => {
  it("comes from the schema of each library, in every method", () => {
    compiles(() =>
      defineAgent({
        name: "Worker",
        version: "1.0.0",
        methods: {
          job_start: {
            fields: z.object({
              n: z.number().default(1),
              when: z.string().transform((text) => new Date(text)),
            }),
            run({ fields }) {
              expectTypeOf(fields).toEqualTypeOf<{ n: number; when: Date }>();
            },
          },
          chat: {
            fields: type({ text: "string", loud: "boolean = false" }),
            run: ({ fields }) => {
              expectTypeOf(fields).toEqualTypeOf<{ text: string; loud: boolean }>();
            },
          },
          custom: {
            count: {
              fields: v.object({ text: v.string() }),
              run({ fields }) {
                expectTypeOf(fields).toEqualTypeOf<{ text: string }>();
              },
            },
            add: {
              fields: z.object({ a: z.number() }),
              run: ({ fields, parameters }) => {
                expectTypeOf(fields).toEqualTypeOf<{ a: number }>();
                // @ts-expect-error no parameter is declared
                return parameters.NOT_DECLARED;
              },
            },
            plain: {
              run({ fields }) {
                expectTypeOf(fields).toEqualTypeOf<Record<string, unknown>>();
              },
            },
          },
        },
      }),
    );
  });

  it("comes from an asynchronous schema, a strict or a loose one, one with a message and one with a check", () => {
    const check = <F extends v.GenericSchema<object> | v.GenericSchemaAsync<object>>(fields: F) =>
      item.ask({ question: "?", fields });
    compiles(async () => {
      const schemas = [
        await check(v.objectAsync({ a: v.string() })),
        await check(v.strictObject({ a: v.string() })),
        await check(v.object({ a: v.string() }, "own message")),
        await check(
          v.pipe(
            v.object({ a: v.string() }),
            v.check(({ a }) => a !== "", "own message"),
          ),
        ),
      ];
      for (const values of schemas) expectTypeOf(values).toEqualTypeOf<{ a: string }>();
      expectTypeOf((await check(v.looseObject({ a: v.string() }))).a).toEqualTypeOf<string>();
    });
  });

  it("is that of an object", () => {
    // @ts-expect-error a text is no object
    compiles(() => item.ask({ question: "?", fields: z.string() }));
  });
});

describe("the default of a question", () => {
  it("has the type of a valid answer", () => {
    const fields = z.object({ ok: z.boolean(), note: z.string().default("") });
    compiles(() => [
      item.ask({ question: "?", fields, onTimeout: "default", default: { ok: true } }),
      // @ts-expect-error a text is no boolean
      item.ask({ question: "?", fields, onTimeout: "default", default: { ok: "yes" } }),
      // @ts-expect-error there is no such field
      item.ask({ question: "?", fields, onTimeout: "default", default: { ok: true, more: 1 } }),
      item.ask({ question: "?", fields: [{ name: "ok" }], default: { ok: "yes" } }),
    ]);
  });
});

describe("the type of parameters", () => {
  it("has the declared ones, and which of them have a value", () => {
    compiles(() =>
      defineAgent({
        name: "Worker",
        version: "1.0.0",
        parameters: [
          { name: "TOKEN", is_secret: true, is_required: true },
          { name: "URL", value: "http://127.0.0.1" },
          { name: "COLOR" },
        ],
        methods: {
          job_start: {
            run({ parameters }) {
              expectTypeOf(parameters.TOKEN).toEqualTypeOf<string>();
              expectTypeOf(parameters.URL).toEqualTypeOf<string>();
              expectTypeOf(parameters.COLOR).toEqualTypeOf<string | undefined>();
              // @ts-expect-error it is not declared
              return parameters.NOT_DECLARED;
            },
          },
          job_stop: {
            run({ parameters }) {
              expectTypeOf(parameters.TOKEN).toEqualTypeOf<string>();
              // @ts-expect-error it is not declared
              return parameters.NOT_DECLARED;
            },
          },
        },
      }),
    );
  });
});

describe("the type of a duration", () => {
  it("is a number of seconds, or a text with a unit", () => {
    compiles(() => [
      ...[job.sleep(5), job.sleep("5m"), job.sleep("1.5 h"), job.sleep("500ms"), job.sleep("3d")],
      // @ts-expect-error a word is no unit
      job.sleep("5 minutes"),
      // @ts-expect-error a day is no duration
      job.step("x", () => 1, { timeout: "tomorrow" }),
      // @ts-expect-error it has no unit
      item.ask({ question: "?", fields: [], deadline: "5" }),
    ]);
  });

  it("is narrowed from any text", () => {
    const text: string = "5m";

    expectTypeOf(isDuration(text) ? text : ("1s" as const)).toExtend<Duration>();
    expect(["5m", 5, "1.5 h", "5 minutes", "tomorrow", -1, null].map(isDuration)).toEqual([
      ...[true, true, true, false, false, false, false],
    ]);
  });
});
