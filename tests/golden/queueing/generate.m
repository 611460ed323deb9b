% Writes networks.json: random networks and what Octave's package `queueing` says of them.
% Once, by hand: apt-get install octave octave-queueing; cd tests/golden/queueing && octave -q generate.m
% A model is V (class x station), S (service time of a visit), m (servers, 0 for a delay), and N with Z, or lambda.
pkg load queueing
rand("twister", 20261121);
warning("off", "all");
models = {};
whole = @(n) n(:)';
for i = 1:24                                   % closed, one class, one server or delay
  K = randi([1 6]); N = randi([1 60]);
  S = round(1000 * (0.01 + rand(1, K))) / 1000; V = randi([1 5], 1, K); m = ones(1, K);
  if K > 1 && rand < .5, m(K) = 0; end
  Z = round(100 * 5 * rand * (rand < .7)) / 100;
  mm = m; mm(m == 0) = -1;
  [U R Q X] = qncsmva(N, S, V, mm, Z);
  models{end+1} = struct("kind", "closed", "N", N, "Z", Z, "S", {{S}}, "V", {{V}}, "m", {num2cell(m)}, "X", {{X ./ V}}, "R", {{R}}, "Q", {{Q}});
end
for i = 1:20                                   % closed, one class, multi-server stations, by load-dependent convolution
  K = randi([2 4]); N = randi([2 40]);
  D = round(1000 * (0.01 + rand(1, K))) / 1000; m = randi([1 6], 1, K);
  S = zeros(K, N);
  for k = 1:K
    for n = 1:N, S(k, n) = D(k) / min(n, m(k)); end
  end
  [U R Q X] = qncsconvld(N, S, ones(1, K));
  models{end+1} = struct("kind", "closed", "N", N, "Z", 0, "S", {{D}}, "V", {{ones(1, K)}}, "m", {num2cell(m)}, "X", {{X}}, "R", {{R}}, "Q", {{Q}});
end
for i = 1:24                                   % closed, two and three classes
  K = randi([1 5]); C = randi([2 3]); N = randi([1 8], 1, C);
  S = round(1000 * (0.01 + rand(C, K))) / 1000; V = ones(C, K); m = ones(1, K);
  if K > 1 && rand < .5, m(K) = 0; end
  Z = round(100 * 5 * rand(1, C)) / 100;
  mm = m; mm(m == 0) = -1;
  [U R Q X] = qncmmva(N, S, V, mm, Z);
  models{end+1} = struct("kind", "closed", "N", {num2cell(N)}, "Z", {num2cell(Z)}, "S", {num2cell(S, 2)}, "V", {num2cell(V, 2)}, "m", {num2cell(m)}, "X", {num2cell(X, 2)}, "R", {num2cell(R, 2)}, "Q", {num2cell(Q, 2)});
end
for i = 1:20                                   % open, one to three classes
  K = randi([1 5]); C = randi([1 3]);
  S = round(1000 * (0.01 + rand(C, K))) / 1000; V = randi([1 3], C, K); m = ones(1, K);
  lambda = round(1e4 * rand(1, C) * .9 / (C * max(max(S .* V)))) / 1e4 + 1e-4;
  [U R Q X] = qnom(lambda, S, diag(lambda / sum(lambda)) * V, m);   % its V are ratios to all arrivals
  models{end+1} = struct("kind", "open", "lambda", {num2cell(lambda)}, "S", {num2cell(S, 2)}, "V", {num2cell(V, 2)}, "m", {num2cell(m)}, "X", {num2cell(X ./ V, 2)}, "R", {num2cell(R, 2)}, "Q", {num2cell(Q, 2)});
end
for i = 1:12                                   % open, one class, multi-server stations
  K = randi([1 4]);
  S = round(1000 * (0.01 + rand(1, K))) / 1000; V = randi([1 3], 1, K); m = randi([1 9], 1, K);
  lambda = round(1e4 * (.2 + .75 * rand) * min(m ./ (S .* V))) / 1e4;
  [U R Q X] = qnos(lambda, S, V, m);
  models{end+1} = struct("kind", "open", "lambda", lambda, "S", {{S}}, "V", {{V}}, "m", {num2cell(m)}, "X", {{X ./ V}}, "R", {{R}}, "Q", {{Q}});
end
for i = 1:20                                   % mixed
  K = randi([1 4]); C = 2;
  S = round(1000 * (0.01 + rand(C, K))) / 1000; V = ones(C, K); m = ones(1, K);
  lambda = [round(1e4 * .8 * rand / max(S(1, :))) / 1e4 + 1e-4, 0]; N = [0, randi([1 20])];
  [U R Q X] = qnmix(lambda, N, S, V);
  models{end+1} = struct("kind", "mixed", "lambda", {num2cell(lambda)}, "N", {num2cell(N)}, "Z", {num2cell([0 0])}, "S", {num2cell(S, 2)}, "V", {num2cell(V, 2)}, "m", {num2cell(m)}, "X", {num2cell(X, 2)}, "R", {num2cell(R, 2)}, "Q", {num2cell(Q, 2)});
end
f = fopen("networks.json", "w");
fprintf(f, "[\n");
for i = 1:numel(models)
  fprintf(f, "%s%s\n", jsonencode(models{i}), repmat(",", 1, double(i < numel(models))));
end
fprintf(f, "]\n");
fclose(f);
printf("%d models\n", numel(models));
