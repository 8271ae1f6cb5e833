import { H3_APP } from "agent-control-service/h3";
import type { Plugin } from "agent-control-service/plugin";
import { H3 } from "h3";
import { expect, it } from "vitest";
import { describeServer } from "../_setup.ts";

describeServer("middleware of plugins", ({ start }) => {
  it("gets the requests of its paths, in any spelling, and no others", async () => {
    const seen: string[] = [];
    const guard: Plugin = {
      name: "guard",
      setup: ({ get }) => {
        const app = get(H3_APP);
        app.use("/guarded/**", (event) => void seen.push(`guard ${event.url.pathname}`));
        app.use("/things/:id/parts", (event) => void seen.push(`parts ${event.url.pathname}`));
        app.get("/guarded/page", () => "page");
      },
    };
    await using server = await start({ plugins: [guard] });

    for (const path of ["/guarded", "/guarded/page", "/%67uarded/x", "/x/../guarded/y", "/things/1/parts"]) {
      await server.request(path);
    }
    const counted = seen.length;
    for (const path of ["/agents", "/nowhere", "/GUARDED/x", "/things/1"]) await server.request(path);

    expect(counted).toBe(5);
    expect(seen).toHaveLength(counted);
  });

  it("without a path, and of a mounted app, gets the same requests as in h3", async () => {
    const seen: string[] = [];
    const all: Plugin = {
      name: "all",
      setup: ({ get }) => {
        const app = get(H3_APP);
        app.use((event) => void seen.push(`all ${event.url.pathname}`));
        const mounted = new H3();
        mounted.use((event) => void seen.push(`mounted ${event.url.pathname}`));
        mounted.get("/inside", () => "inside");
        app.mount("/outer", mounted);
      },
    };
    await using server = await start({ plugins: [all] });

    await server.request("/agents");
    const inside = await server.request("/outer/inside");

    expect(await inside.text()).toBe("inside");
    expect(seen).toEqual(["all /agents", "all /outer/inside", "mounted /inside"]);
  });
});
