export { H3_APP } from "./core/service/app.ts";
