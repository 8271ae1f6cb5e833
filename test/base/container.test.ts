import { describe, expect, it } from "vitest";
import { Container, createToken } from "../../src/core/base/container.ts";

const NAME = createToken<string>("name");
const PART = createToken<{ name: string }>("part");

describe("container", () => {
  it("creates a part once, when it is first requested", () => {
    const scope = new Container();
    let made = 0;
    scope.value(NAME, "a");
    scope.factory(PART, (parts) => {
      made += 1;
      return { name: parts.get(NAME) };
    });

    const before = made;
    const [first, second] = [scope.get(PART), scope.get(PART)];

    expect([before, made]).toEqual([0, 1]);
    expect(first).toBe(second);
  });

  it("creates a part again whose creation failed, and names one that needs itself", () => {
    const scope = new Container();
    let tries = 0;
    scope.factory(NAME, () => {
      tries += 1;
      if (tries === 1) throw new Error("not yet");
      return "second";
    });
    scope.factory(PART, (parts) => ({ name: parts.get(PART).name }));

    expect(() => scope.get(NAME)).toThrow("not yet");
    expect([scope.get(NAME), scope.get(NAME), tries]).toEqual(["second", "second", 2]);
    expect(() => scope.get(PART)).toThrow('The part "part" needs itself');
  });

  it("has the last of two parts with one token", () => {
    const scope = new Container();
    scope.value(NAME, "first");
    scope.factory(NAME, () => "second");

    expect(scope.get(NAME)).toBe("second");
  });

  it("passes the parts of its tokens to a class", () => {
    class Greeter {
      readonly name: string;
      constructor(name: string) {
        this.name = name;
      }
    }
    const scope = new Container();
    scope.value(NAME, "Ada");
    scope.class(PART, Greeter, [NAME]);

    expect(scope.get(PART)).toBeInstanceOf(Greeter);
    expect(scope.get(PART).name).toBe("Ada");
  });

  it("two containers share nothing", () => {
    const [one, other] = [new Container(), new Container()];
    one.value(NAME, "one");

    expect(other.has(NAME)).toBe(false);
    expect(() => other.get(NAME)).toThrow('There is no part "name"');
  });

  it("a child gets its parent's parts, but not the other way around", () => {
    const parent = new Container();
    const child = parent.child();
    parent.value(NAME, "parent");
    child.value(PART, { name: "child" });

    expect(child.get(NAME)).toBe("parent");
    expect(parent.has(PART)).toBe(false);
  });

  it("closes in reverse order, continues after a failure and reports it", async () => {
    const scope = new Container();
    const closed: number[] = [];
    scope.onClose(() => void closed.push(1));
    scope.onClose(() => {
      throw new Error("second");
    });
    scope.onClose(async () => void closed.push(3));

    await expect(scope.close()).rejects.toThrow("second");

    expect(closed).toEqual([3, 1]);
  });
});
