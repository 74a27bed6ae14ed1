package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.Transactions;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NoSuchViewException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.CreateViewRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.requests.UpdateNamespacePropertiesRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.OAuthTokenResponse;

/**
 * An Iceberg REST catalog on loopback: Iceberg's own CatalogHandlers over a JdbcCatalog on SQLite.
 *
 * <p>Its argument is a file with a setting on each line: port, token ("" for none), warehouse name that clients have to
 * ask for ("" for any), every how many commits one lands but is answered with 500 (0 for never), then key=value of the
 * catalog behind, ~key=value of properties that override those of clients, and @key=value of a login: `credential`,
 * `scope` and the `seconds` that a token is valid. With a login, `/v1/oauth/tokens` gives tokens for the credential, and
 * exchanges none. No secret is on its command line.
 */
public final class RestCatalogServer {
  private static final String LEVELS = "\u001f";

  private final Catalog catalog;
  private final SupportsNamespaces namespaces;
  private final String token;
  private final String warehouse;
  private final long unknownEvery;
  private final Map<String, String> overrides;
  private final Map<String, String> login;
  private final Map<String, Instant> expiries = new ConcurrentHashMap<>();
  private final AtomicLong commits = new AtomicLong();

  /** Requests for one table wait for a commit of several: no client sees a part of it. */
  private final ReadWriteLock together = new ReentrantReadWriteLock();

  private RestCatalogServer(
      Map<String, String> behind,
      Map<String, String> overrides,
      Map<String, String> login,
      String token,
      String warehouse,
      long unknownEvery) {
    this.catalog = CatalogUtil.buildIcebergCatalog("behind", behind, new Configuration());
    this.namespaces = (SupportsNamespaces) catalog;
    this.token = token;
    this.warehouse = warehouse;
    this.unknownEvery = unknownEvery;
    this.overrides = overrides;
    this.login = login;
  }

  public static void main(String[] files) throws Exception {
    String[] arguments = Files.readAllLines(Path.of(files[0])).toArray(new String[0]);
    Map<String, String> behind = new HashMap<>();
    Map<String, String> overrides = new HashMap<>();
    Map<String, String> login = new HashMap<>();
    behind.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    behind.put("jdbc.schema-version", "V1");
    for (int i = 4; i < arguments.length; i++) {
      String[] pair = arguments[i].split("=", 2);
      switch (pair[0].charAt(0)) {
        case '~' -> overrides.put(pair[0].substring(1), pair[1]);
        case '@' -> login.put(pair[0].substring(1), pair[1]);
        default -> behind.put(pair[0], pair[1]);
      }
    }
    long unknownEvery = Long.parseLong(arguments[3]);
    RestCatalogServer served =
        new RestCatalogServer(behind, overrides, login, arguments[1], arguments[2], unknownEvery);
    HttpServer http = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
    http.setExecutor(Executors.newFixedThreadPool(8));
    http.createContext("/", served::serve);
    http.start();
  }

  private void serve(HttpExchange exchange) throws IOException {
    int code = 200;
    Object answer;
    try {
      if (!login.isEmpty() && exchange.getRequestURI().getPath().equals("/v1/oauth/tokens")) {
        answer = newToken(pairsOf(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8)));
      } else {
        requireToken(exchange.getRequestHeaders().getFirst("Authorization"));
        answer = answer(exchange);
      }
      code = answer == null ? 204 : 200;
    } catch (Throwable error) {
      code = codeOf(error);
      answer =
          ErrorResponse.builder()
              .responseCode(code)
              .withType(error.getClass().getSimpleName())
              .withMessage(String.valueOf(error.getMessage()))
              .build();
    }
    System.out.println(exchange.getRequestMethod() + " " + exchange.getRequestURI() + " " + code);
    byte[] body = new byte[0];
    if (answer != null && !exchange.getRequestMethod().equals("HEAD")) {
      body = RESTObjectMapper.mapper().writeValueAsBytes(answer);
    }
    exchange.getResponseHeaders().add("Content-Type", "application/json");
    exchange.sendResponseHeaders(code, body.length == 0 ? -1 : body.length);
    if (body.length > 0) {
      try (OutputStream stream = exchange.getResponseBody()) {
        stream.write(body);
      }
    }
    exchange.close();
  }

  private void requireToken(String header) {
    boolean isValid =
        login.isEmpty()
            ? token.isEmpty() || ("Bearer " + token).equals(header)
            : Instant.now().isBefore(expiries.getOrDefault(String.valueOf(header), Instant.MIN));
    if (!isValid) {
      throw new NotAuthorizedException("no token, or a wrong one");
    }
  }

  private OAuthTokenResponse newToken(Map<String, String> form) {
    if (!"client_credentials".equals(form.get("grant_type"))) {
      throw new IllegalArgumentException("unsupported_grant_type");
    }
    if (!login.get("credential").equals(form.get("client_id") + ":" + form.get("client_secret"))) {
      throw new NotAuthorizedException("invalid_client");
    }
    if (!login.get("scope").equals(form.get("scope"))) {
      throw new IllegalArgumentException("invalid_scope");
    }
    String made = token + "-" + expiries.size();
    int seconds = Integer.parseInt(login.get("seconds"));
    expiries.put("Bearer " + made, Instant.now().plusSeconds(seconds));
    return OAuthTokenResponse.builder().withToken(made).withTokenType("bearer").setExpirationInSeconds(seconds).build();
  }

  private static int codeOf(Throwable error) {
    if (error instanceof NamespaceNotEmptyException
        || error instanceof AlreadyExistsException
        || error instanceof CommitFailedException) {
      return 409;
    }
    if (error instanceof NotAuthorizedException) {
      return 401;
    }
    if (error instanceof NoSuchNamespaceException
        || error instanceof NoSuchTableException
        || error instanceof NoSuchViewException) {
      return 404;
    }
    if (error instanceof UnsupportedOperationException) {
      return 406;
    }
    return error instanceof IllegalArgumentException || error instanceof ValidationException ? 400 : 500;
  }

  private static <T> T body(HttpExchange exchange, Class<T> kind) throws IOException {
    return RESTObjectMapper.mapper().readValue(exchange.getRequestBody().readAllBytes(), kind);
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }

  private static Map<String, String> pairsOf(String query) {
    Map<String, String> found = new HashMap<>();
    for (String pair : query == null ? new String[0] : query.split("&")) {
      String[] parts = pair.split("=", 2);
      found.put(parts[0], parts.length > 1 ? decoded(parts[1]) : "");
    }
    return found;
  }

  /** What the request asks for; null where there is nothing to say but that it is done. */
  private Object answer(HttpExchange exchange) throws IOException {
    String method = exchange.getRequestMethod();
    String raw = exchange.getRequestURI().getRawPath().replaceFirst("^/v1/", "");
    String prefix = overrides.getOrDefault("prefix", "") + "/";
    String[] path = (raw.startsWith(prefix) ? raw.substring(prefix.length()) : raw).split("/");
    Map<String, String> query = pairsOf(exchange.getRequestURI().getRawQuery());
    switch (path[0]) {
      case "config":
        if (!warehouse.isEmpty() && !warehouse.equals(query.get("warehouse"))) {
          throw new IllegalArgumentException("no such warehouse: " + query.get("warehouse"));
        }
        return ConfigResponse.builder().withOverrides(overrides).build();
      case "tables":
        CatalogHandlers.renameTable(catalog, body(exchange, RenameTableRequest.class));
        return null;
      case "transactions":
        CommitTransactionRequest request = body(exchange, CommitTransactionRequest.class);
        together.writeLock().lock();
        try {
          commit(request);
        } finally {
          together.writeLock().unlock();
        }
        loseSomeAnswers();
        return null;
      case "namespaces":
        return path.length < 3
            ? ofNamespace(exchange, method, path, query)
            : ofTables(exchange, method, path, query, Namespace.of(decoded(path[1]).split(LEVELS)));
      default:
        throw new UnsupportedOperationException(method + " " + exchange.getRequestURI());
    }
  }

  private Object ofNamespace(HttpExchange exchange, String method, String[] path, Map<String, String> query)
      throws IOException {
    if (path.length == 1) {
      String parent = query.get("parent");
      return method.equals("POST")
          ? CatalogHandlers.createNamespace(namespaces, body(exchange, CreateNamespaceRequest.class))
          : CatalogHandlers.listNamespaces(
              namespaces, parent == null ? Namespace.empty() : Namespace.of(parent.split(LEVELS)));
    }
    Namespace namespace = Namespace.of(decoded(path[1]).split(LEVELS));
    if (method.equals("DELETE")) {
      CatalogHandlers.dropNamespace(namespaces, namespace);
      return null;
    }
    Object loaded = CatalogHandlers.loadNamespace(namespaces, namespace);
    return method.equals("HEAD") ? null : loaded;
  }

  private Object ofTables(
      HttpExchange exchange, String method, String[] path, Map<String, String> query, Namespace namespace)
      throws IOException {
    switch (path[2]) {
      case "properties":
        return CatalogHandlers.updateNamespaceProperties(
            namespaces, namespace, body(exchange, UpdateNamespacePropertiesRequest.class));
      case "register":
        return CatalogHandlers.registerTable(catalog, namespace, body(exchange, RegisterTableRequest.class));
      case "views":
        return ofViews(exchange, method, path, namespace);
      case "tables":
        return path.length == 3
            ? ofNewTable(exchange, method, namespace)
            : ofTable(exchange, method, path, query, TableIdentifier.of(namespace, decoded(path[3])));
      default:
        throw new UnsupportedOperationException(method + " " + exchange.getRequestURI());
    }
  }

  private Object ofViews(HttpExchange exchange, String method, String[] path, Namespace namespace) throws IOException {
    ViewCatalog views = (ViewCatalog) catalog;
    if (path.length == 3) {
      return method.equals("GET")
          ? CatalogHandlers.listViews(views, namespace)
          : CatalogHandlers.createView(views, namespace, body(exchange, CreateViewRequest.class));
    }
    TableIdentifier view = TableIdentifier.of(namespace, decoded(path[3]));
    switch (method) {
      case "GET":
        return CatalogHandlers.loadView(views, view);
      case "HEAD":
        if (!views.viewExists(view)) {
          throw new NoSuchViewException("no view %s", view);
        }
        return null;
      case "POST":
        return CatalogHandlers.updateView(views, view, body(exchange, UpdateTableRequest.class));
      case "DELETE":
        CatalogHandlers.dropView(views, view);
        return null;
      default:
        throw new UnsupportedOperationException(method + " " + exchange.getRequestURI());
    }
  }

  private Object ofNewTable(HttpExchange exchange, String method, Namespace namespace) throws IOException {
    if (method.equals("GET")) {
      return CatalogHandlers.listTables(catalog, namespace);
    }
    CreateTableRequest request = body(exchange, CreateTableRequest.class);
    request.validate();
    return request.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
        : CatalogHandlers.createTable(catalog, namespace, request);
  }

  private Object ofTable(
      HttpExchange exchange, String method, String[] path, Map<String, String> query, TableIdentifier table)
      throws IOException {
    if (path.length > 4) {
      return null; // metrics
    }
    together.readLock().lock();
    try {
      return ofOneTable(exchange, method, query, table);
    } finally {
      together.readLock().unlock();
    }
  }

  private Object ofOneTable(HttpExchange exchange, String method, Map<String, String> query, TableIdentifier table)
      throws IOException {
    switch (method) {
      case "GET":
        return CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.ALL);
      case "HEAD":
        if (!catalog.tableExists(table)) {
          throw new NoSuchTableException("no table %s", table);
        }
        return null;
      case "POST":
        Object done = CatalogHandlers.updateTable(catalog, table, body(exchange, UpdateTableRequest.class));
        loseSomeAnswers();
        return done;
      case "DELETE":
        if (Boolean.parseBoolean(query.getOrDefault("purgeRequested", "false"))) {
          CatalogHandlers.purgeTable(catalog, table);
        } else {
          CatalogHandlers.dropTable(catalog, table);
        }
        return null;
      default:
        throw new UnsupportedOperationException(method + " " + exchange.getRequestURI());
    }
  }

  private void loseSomeAnswers() {
    if (unknownEvery > 0 && commits.incrementAndGet() % unknownEvery == 0) {
      throw new IllegalStateException("the commit has landed, and its answer is lost");
    }
  }

  private void commit(CommitTransactionRequest request) {
    List<Transaction> transactions = new ArrayList<>();
    for (UpdateTableRequest change : request.tableChanges()) {
      BaseTable table = (BaseTable) catalog.loadTable(change.identifier());
      Transaction made = Transactions.newTransaction(change.identifier().toString(), table.operations());
      CatalogHandlers.commit(((BaseTransaction.TransactionTable) made.table()).operations(), change);
      transactions.add(made);
    }
    transactions.forEach(Transaction::commitTransaction);
  }
}
