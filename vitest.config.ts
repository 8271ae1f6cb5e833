import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: {
    alias: [
      {
        find: /^agent-control-service\/testing$/,
        replacement: new URL("./src/testing.ts", import.meta.url).pathname,
      },
      { find: /^agent-control-service$/, replacement: new URL("./src/index.ts", import.meta.url).pathname },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    reporters: ["default"],
  },
});
