import { describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/base/log.ts";
import { Redactor } from "../../src/core/base/redactor.ts";

describe("redactor", () => {
  it("removes a secret from text in any encoding", () => {
    const redactor = new Redactor();
    const secret = 'to"ken/ä+1';
    redactor.add(secret);

    const text = [
      secret,
      JSON.stringify({ secret }),
      encodeURIComponent(secret),
      Buffer.from(secret).toString("base64"),
      Buffer.from(secret).toString("hex"),
      Buffer.from(secret).toString("hex").toUpperCase(),
    ];

    for (const line of text) {
      expect(redactor.text(`a ${line} b`)).toContain("[secret]");
      expect(redactor.text(`a ${line} b`)).not.toContain(line);
    }
  });

  it("removes what is left of a secret without the space around it, and each line of one, from JSON and JSON in JSON", () => {
    const redactor = new Redactor();
    redactor.add(' pass"word\\one ');
    redactor.add('-----BEGIN-----\nfirst "line" of the key\n-----END-----');

    for (const text of ['pass"word\\one', 'first "line" of the key']) {
      for (const value of [{ text }, { text: JSON.stringify({ text }) }, [JSON.stringify([text])]]) {
        const json = JSON.stringify(redactor.json(value));
        expect(json).toContain("[secret]");
        expect(json).not.toContain(text.slice(0, 4));
      }
    }
  });

  it("cleans keys and values of a JSON value and leaves a clean one unchanged", () => {
    const redactor = new Redactor();
    redactor.add("hunter2-hunter2");
    const clean = { a: [1, "x"] };

    expect(redactor.json({ "hunter2-hunter2": ["say hunter2-hunter2"] })).toEqual({
      "[secret]": ["say [secret]"],
    });
    expect(redactor.json(clean)).toBe(clean);
  });

  it("ignores values so short that ordinary words would be removed", () => {
    const redactor = new Redactor();
    redactor.add("abc");

    expect(redactor.text("abc")).toBe("abc");
  });

  it("a longer secret that contains a shorter one is removed completely", () => {
    const redactor = new Redactor();
    redactor.add("secret-one");
    redactor.add("secret-one-and-more");

    expect(redactor.text("secret-one-and-more")).toBe("[secret]");
  });
});

describe("logger", () => {
  function capture(format: "text" | "json") {
    const lines: string[] = [];
    const redactor = new Redactor();
    redactor.add("very-secret-value");
    const clock = () => new Date("2026-01-02T03:04:05.678Z");
    const log = createLogger({
      level: "info",
      format,
      redactor,
      clock,
      write: (line) => void lines.push(line),
    });
    return { lines, log };
  }

  it("writes one JSON object per line with its fields", () => {
    const { lines, log } = capture("json");

    log.with({ job: "j1" }).info("started", { n: 1 });

    expect(JSON.parse(lines[0]!)).toEqual({
      time: "2026-01-02T03:04:05.678Z",
      level: "info",
      message: "started",
      job: "j1",
      n: 1,
    });
  });

  it("skips lines below its level", () => {
    const { lines, log } = capture("text");

    log.debug("quiet");

    expect(lines).toEqual([]);
  });

  it.each(["text", "json"] as const)("hostile text cannot forge a second %s line", (format) => {
    const { lines, log } = capture(format);

    log.info("a\nINFO forged \u001b[31m", { field: "b\r\nc" });

    expect(lines).toHaveLength(1);
    expect(lines[0]!.trimEnd()).not.toMatch(/\p{Cc}/u);
  });

  it("an error's text cannot control a terminal or forge a line", () => {
    const { lines, log } = capture("text");

    log.error("failed", { error: "one\r\u001b[2J12:00:00.000 INFO  forged\ntwo" });

    expect(lines[0]!.trimEnd()).toMatch(/\n {2}one\\x0d\\x1b\[2J12.*\n {2}two$/);
  });

  it("a thrown value is logged even if it is not an error", () => {
    const { lines, log } = capture("text");

    log.error("failed", { error: { code: 7 } });

    expect(lines[0]).toContain('{"code":7}');
  });

  it("errors that cause each other are logged once", () => {
    const { lines, log } = capture("json");
    const error = new Error("outer");
    error.cause = new Error("inner", { cause: error });

    log.error("failed", { error });

    expect(lines[0]?.match(/Error: outer/g)).toHaveLength(1);
    expect(lines[0]).toContain("Error: inner");
  });

  it("fields cannot override a line's own time, level and message", () => {
    const { lines, log } = capture("json");

    log.info("read", { level: 3, message: "hello" });

    expect(JSON.parse(lines[0]!)).toMatchObject({
      level: "info",
      message: "read",
      "field.level": 3,
      "field.message": "hello",
    });
  });

  it("secrets are removed from messages, fields and errors with their causes", () => {
    const { lines, log } = capture("json");

    log.error("got very-secret-value", {
      value: { deep: ["very-secret-value"] },
      error: new Error("outer", { cause: new Error("inner very-secret-value") }),
    });

    expect(lines[0]).not.toContain("very-secret-value");
    expect(lines[0]).toContain("caused by");
  });

  describe("of a text that comes in parts", () => {
    const secrets = ["sk-live-0123456789", "xyz-abcdef", "efghij-klmn", "sk-live-other"];
    const redactor = new Redactor();
    for (const secret of secrets) redactor.add(secret);
    const cut = (text: string, at: readonly number[]) =>
      [0, ...at].map((start, index) => text.slice(start, at[index] ?? text.length));
    const read = (parts: readonly string[]) => {
      const stream = redactor.parts();
      return parts.map((part) => stream.take(part)).join("") + stream.rest();
    };

    it("removes a secret however it is split", () => {
      const text = "My key is sk-live-0123456789, and xyz-abcdefghij-klmn; sk-live-012 is none. s";
      const expected = "My key is [secret], and [secret]; sk-live-012 is none. s";
      const every = Array.from({ length: text.length - 1 }, (_, at) => at + 1);

      expect(read([text])).toBe(expected);
      for (const one of every) {
        for (const other of every.filter((at) => at > one)) {
          // One character alone is not held back: it may be the first of a secret.
          expect(read(cut(text, [one, other])).replace(/\b[sx]\[/g, "[")).toBe(expected);
        }
      }
      expect(read([...text])).toBe("My key is s[secret], and x[secret]; sk-live-012 is none. s");
    });

    it("holds back what may be the beginning of a secret, and nothing else", () => {
      const stream = redactor.parts();

      expect(stream.take("my desk")).toBe("my de");
      expect(stream.take("top is clean")).toBe("sktop is clean");
      expect(stream.take("bus")).toBe("bus");
      expect(stream.take("k-live-012")).toBe("");
      expect(stream.rest()).toBe("k-live-012");
    });
  });
});
