import { describe, expect, it } from "vitest";
import { Hooks } from "../../src/core/entities/hooks.ts";

interface Told {
  ping: number;
}

describe("hooks", () => {
  it("notifies observers in the order in which they were added", () => {
    const hooks = new Hooks<Told>(() => {});
    const told: string[] = [];
    hooks.on("ping", (n) => void told.push(`a${n}`));
    hooks.on("ping", (n) => void told.push(`b${n}`));

    hooks.emit("ping", 1);

    expect(told).toEqual(["a1", "b1"]);
  });

  it("reports an observer that throws or rejects, and notifies the others", async () => {
    const errors: string[] = [];
    const hooks = new Hooks<Told>((name, error) => void errors.push(`${name}: ${(error as Error).message}`));
    let told = 0;
    hooks.on("ping", () => {
      throw new Error("immediately");
    });
    hooks.on("ping", async () => {
      throw new Error("later");
    });
    hooks.on("ping", () => void told++);

    hooks.emit("ping", 1);
    await new Promise((resolve) => setImmediate(resolve));

    expect(told).toBe(1);
    expect(errors).toEqual(["ping: immediately", "ping: later"]);
  });

  it("an observer's return value is ignored", () => {
    const errors: unknown[] = [];
    const hooks = new Hooks<Told>((_, error) => void errors.push(error));
    const told: number[] = [];
    const careless = (n: number) => told.push(n);
    hooks.on("ping", careless as (n: number) => never);

    hooks.emit("ping", 1);

    expect([told, errors]).toEqual([[1], []]);
  });

  it("a removed observer is not notified", () => {
    const hooks = new Hooks<Told>(() => {});
    let told = 0;
    const off = hooks.on("ping", () => void told++);

    off();
    hooks.emit("ping", 1);

    expect(told).toBe(0);
  });
});
